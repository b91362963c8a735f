//! An S3 server that is killed and started again while a mount writes to it.

use crate::place::{Place, eventually, fsck, ondol, succeeds, transport};
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

const KEY: &str = "ondol-test";
const TARGET: &str = "s3://ondol/volume";

/// VersityGW over a directory, as `ONDOL_S3_SERVER` names it.
struct Server {
    program: PathBuf,
    dir: tempfile::TempDir,
    address: String,
    process: Option<Child>,
}

impl Server {
    fn new() -> Self {
        let program = std::env::var_os("ONDOL_S3_SERVER").expect("ONDOL_S3_SERVER names the server's program");
        // Where files have attributes, which tmpfs may lack.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir_all(dir.path().join("ondol")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut server = Self { program: program.into(), dir, address, process: None };
        drop(listener);
        server.start();
        server
    }

    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--access", KEY, "--secret", KEY, "--port", &self.address, "--quiet", "posix"]);
        command.arg(self.dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        assert!(eventually(|| TcpStream::connect(&self.address).is_ok()), "the server does not answer");
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// A command that finds this server.
    fn told(&self, mut command: Command) -> Command {
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.address)).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", KEY).env("AWS_REGION", "us-east-1");
        command
    }

    fn ondol(&self, words: &[&str]) -> Command {
        let mut command = self.told(ondol());
        command.args(words);
        command
    }

    fn mount(&self, place: &Place, options: &str) -> Command {
        let mut command = self.ondol(&["mount", "-f", "-o"]);
        command.arg(format!("transport={},{options}", transport())).arg(TARGET).arg(place.mount_point());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Threads that write.
const WRITERS: usize = 3;

/// What a writer puts into its file of this number.
fn contents(writer: usize, n: u64) -> Vec<u8> {
    let mut state = (n << 8 | writer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..3000 + n % 5 * 4096).map(|_| next()).collect()
}

/// Writers, and how many of its files each has synced.
struct Load {
    stop: AtomicBool,
    synced: [AtomicU64; WRITERS],
}

impl Load {
    fn all(&self) -> u64 {
        self.synced.iter().map(|synced| synced.load(SeqCst)).sum()
    }

    /// Makes one file after the other durable.
    fn write(&self, place: &Place, writer: usize) {
        while !self.stop.load(SeqCst) {
            let n = self.synced[writer].load(SeqCst);
            let mut file = File::create(place.on(&format!("{writer}-{n}"))).unwrap();
            file.write_all(&contents(writer, n)).unwrap();
            file.sync_all().unwrap_or_else(|e| panic!("fsync of file {n} of writer {writer}: {e}"));
            self.synced[writer].store(n + 1, SeqCst);
        }
    }
}

/// What `ondol top` says of the store.
fn state(place: &Place) -> String {
    let said = succeeds(ondol().args(["top", "--once", "-d", "0.2"]).arg(place.mount_point()));
    said.lines().find(|line| line.starts_with("store ")).unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn killed_and_started_again(options: &str) {
    let mut server = Server::new();
    let Some(mut place) = Place::new() else { return };
    succeeds(&mut server.ondol(&["mkfs", "--size", "256M", TARGET]));
    let mounted = place.serve_by(server.mount(&place, options));
    let load = Load { stop: AtomicBool::new(false), synced: Default::default() };
    std::thread::scope(|scope| {
        let (load, on) = (&load, &place);
        for writer in 0..WRITERS {
            scope.spawn(move || load.write(on, writer));
        }
        for round in 0..8u64 {
            let before = load.all();
            assert!(eventually(|| load.all() > before + 20), "nothing goes on in round {round}");
            server.kill();
            sleep(Duration::from_millis(round % 4 * 300));
            if round == 5 {
                // Nothing is synced that is not in the bucket, and whoever looks sees why.
                assert!(eventually(|| state(on).contains("has answered nothing for")), "{}", state(on));
            }
            server.start();
        }
        let before = load.all();
        assert!(eventually(|| load.all() > before + 20), "nothing goes on in the end");
        assert!(eventually(|| state(on).contains("answers;")), "{}", state(on));
        load.stop.store(true, SeqCst);
    });
    // The mount is lost, too. What it has acknowledged is there.
    place.server(mounted).kill().unwrap();
    place.server(mounted).wait().unwrap();
    succeeds(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
    place.serve_by(server.mount(&place, options));
    for (writer, synced) in load.synced.iter().enumerate() {
        let synced = synced.load(SeqCst);
        assert!(synced > 20, "{synced}");
        for n in 0..synced {
            let found = fs::read(place.on(&format!("{writer}-{n}"))).unwrap();
            assert!(found == contents(writer, n), "file {n} of writer {writer}, of {synced}");
        }
    }
    place.umount();
    succeeds(&mut server.ondol(&["check", "-n", TARGET]));
    let image = place.image();
    succeeds(server.ondol(&["export", "-F", TARGET]).arg(&image));
    let found = fsck(&image);
    assert!(found.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{found:?}");
}

#[test]
#[ignore = "needs an S3 server, which `cargo xtask s3` has"]
fn nothing_synced_is_lost_when_the_server_of_the_bucket_is_killed_under_load() {
    killed_and_started_again("rw");
}

#[test]
#[ignore = "needs an S3 server, which `cargo xtask s3` has"]
fn nor_with_a_log_on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("redo");
    killed_and_started_again(&format!("rw,durable=local,redo={},redo_size=16M", log.display()));
}
