//! `cargo xtask s3`: the program's tests of object storage on a real S3 server, VersityGW, which runs on this machine over a directory. With `--bench`, figures instead.

mod bench;

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const SERVER: &str = "versitygw";
const BUCKET: &str = "ondol";
/// Nobody else reaches it.
const KEY: &str = "ondol-test";

/// A server that ends with this.
struct Server {
    process: Child,
    dir: PathBuf,
    address: String,
}

impl Server {
    /// Where it is, in the environment of a program.
    fn named_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.address)).env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", KEY).env("AWS_REGION", "us-east-1")
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
    let server = server()?;
    let target = crate::metadata()?.target_directory.into_std_path_buf();
    let dir = target.join("s3");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("root").join(BUCKET)).map_err(|e| format!("{}: {e}", dir.display()))?;
    let address = free_address()?;
    let mut command = Command::new(&server);
    command.args(["--access", KEY, "--secret", KEY, "--port", &address, "--quiet", "posix"]).arg(dir.join("root"));
    let process = command.spawn().map_err(|e| format!("{}: {e}", server.display()))?;
    let served = Server { process, dir, address };
    if !(0..100).any(|_| TcpStream::connect(&served.address).is_ok() || pause()) {
        return Err(format!("{} does not answer at {}", server.display(), served.address));
    }
    if let Some((_, words)) = words.split_first().filter(|(first, _)| *first == "--bench") {
        return bench::run(&served, words);
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "ondol", "-p", "ondol-cli", "--features", "ondol-cli/object", "--test", "program"]);
    tests.args(["bucket", "--"]).args(words);
    tests.env("ONDOL_TEST_BUCKET", format!("s3://{BUCKET}/tests"));
    crate::run(served.named_to(&mut tests))
}

fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(50));
    false
}

/// The server's program: `ONDOL_S3_SERVER`, or the one in the path.
fn server() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("ONDOL_S3_SERVER") {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(SERVER)).find(|file| Path::is_file(file));
    found.ok_or_else(|| {
        format!(
            "{SERVER} is not in the path: `go install github.com/versity/versitygw/cmd/versitygw@latest` builds it, and ONDOL_S3_SERVER names it"
        )
    })
}

/// An address on this machine that nobody has.
fn free_address() -> Result<String, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.to_string())
}
