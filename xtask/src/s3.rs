//! `cargo xtask s3`: the program's tests of object storage on a real S3 server, VersityGW, which runs on this machine
//! over a directory. With `--bench`, figures beside the server instead; with `--peers`, beside other programs that
//! mount buckets.

mod bench;
mod figures;
mod peers;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const SERVER: &str = "versitygw";
pub(crate) const BUCKET: &str = "ondol";
/// Nobody else reaches it.
const KEY: &str = "ondol-test";

/// A server that ends with this.
pub(crate) struct Server {
    process: Child,
    dir: PathBuf,
    address: String,
}

impl Server {
    /// Where an S3 server is, in the environment of a program.
    fn named_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.address)).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", KEY).env("AWS_REGION", "us-east-1")
    }

    /// Starts `command` over a fresh directory of this name, its last word, which has `dirs`, and waits until it
    /// answers.
    pub(crate) fn start(mut command: Command, name: &str, dirs: &[&str], address: &str) -> Result<Self, String> {
        let dir = crate::metadata()?.target_directory.into_std_path_buf().join(name);
        let _ = fs::remove_dir_all(&dir);
        let root = dir.join("root");
        for made in [root.clone()].into_iter().chain(dirs.iter().map(|below| root.join(below))) {
            fs::create_dir_all(&made).map_err(|e| format!("{}: {e}", made.display()))?;
        }
        let process = command.arg(&root).spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let server = Self { process, dir, address: address.to_owned() };
        if !(0..400).any(|_| TcpStream::connect(address).is_ok() || pause()) {
            return Err(format!("{command:?} does not answer at {address}"));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended; and what stays is in the directory for what is built.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Words go on to the tests, as names of tests do.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let how = "`go install github.com/versity/versitygw/cmd/versitygw@latest` builds it, and ONDOL_S3_SERVER names it";
    let server = program(SERVER, "ONDOL_S3_SERVER", how)?;
    let address = free_address()?;
    let mut command = Command::new(&server);
    command.args(["--access", KEY, "--secret", KEY, "--port", &address, "--quiet", "--keep-alive"]);
    let has_peers = words.first().is_some_and(|first| first == "--peers");
    if has_peers {
        let log = peers::log()?;
        let _ = fs::remove_file(&log);
        command.arg("--access-log").arg(log);
    }
    command.arg("posix");
    let served = Server::start(command, "s3", &[BUCKET], &address)?;
    if has_peers {
        return peers::run(&served, &words[1..]);
    }
    if let Some((_, words)) = words.split_first().filter(|(first, _)| *first == "--bench") {
        return bench::run(&served, words);
    }
    let test = |test: &[&str], words: &[String]| {
        let mut tests = crate::tests_in_tree()?;
        tests.arg("--test").args(test).args(words);
        tests.env("ONDOL_TEST_BUCKET", format!("s3://{BUCKET}/tests")).env("ONDOL_S3_SERVER", &server);
        served.named_to(&mut tests);
        crate::run(&mut tests)
    };
    // What needs the server or a real bucket is left out elsewhere.
    test(&["stack", "bucket", "--", "--include-ignored"], words)?;
    test(&["lab", "bucket_bench"], &[])?;
    if words.is_empty() { test(&["object", "real_bucket", "--", "--ignored"], &[]) } else { Ok(()) }
}

/// `--rounds N`, or as many as usual; and the other words.
fn rounds(words: &[String], usual: u32) -> Result<(u32, Vec<String>), String> {
    let (mut rounds, mut others, mut words) = (usual, vec![], words.iter());
    while let Some(word) = words.next() {
        if word == "--rounds" {
            let number = words.next().and_then(|number| number.parse().ok());
            rounds = number.ok_or("--rounds has a number")?;
        } else {
            others.push(word.clone());
        }
    }
    Ok((rounds, others))
}

fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(50));
    false
}

/// The program of a server: what the environment names, or the one in the path.
pub(crate) fn program(name: &str, variable: &str, how: &str) -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(variable) {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| Path::is_file(file));
    found.ok_or_else(|| format!("{name} is not in the path: {how}"))
}

/// An address on this machine that nobody has.
pub(crate) fn free_address() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.to_string())
}
