//! `cargo xtask s3 --bench`: a mount beside the server by itself. Both do the same by turns, and medians are printed.

#![allow(clippy::disallowed_methods, reason = "a bench measures by the real clock")]

use super::figures::{Figures, middle, printed, processor_seconds};
use super::{BUCKET, KEY, Server};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of the large object, and of the large file.
const OBJECT: usize = 64 << 20;
const FILE: usize = 256 << 20;
const PIECE: usize = 1 << 20;

/// Small puts and fsyncs in a round.
const SMALL: usize = 400;

const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// An object of the database's log has such a name with it, by which an answer that was lost is known again.
const NAMED: &str = "x-amz-meta-slatedbputid: 01KAZZZZZZZZZZZZZZZZZZZZZZ";

/// Names of figures.
const FSYNC: &str = "`pwrite` of 4 KiB and fsync, p50";
const PUT: &str = "put of as many bytes, p50";
const NAMED_PUT: &str = "put with the attribute that the log's objects have, p50";
const WRITE: &str = "sequential write, fsync";
const READ: &str = "sequential read, cold";
const LARGE_PUT: &str = "put of 64 MiB";
const LARGE_GET: &str = "get of 64 MiB";

/// Words: `--rounds N`, and arguments of `ondol mkfs`, as `--chunk 64K`.
pub(super) fn run(server: &Server, words: &[String]) -> Result<(), String> {
    let (rounds, making) = super::rounds(words, 5)?;
    let bench = Bench { server, program: program()?, making, dir: server.dir.join("bench") };
    fs::create_dir_all(bench.dir.join("mnt")).map_err(|e| format!("{}: {e}", bench.dir.display()))?;
    let mut figures = Figures::default();
    for round in 1..=rounds {
        eprintln!("xtask: round {round} of {rounds}");
        bench.large_objects(&mut figures)?;
        bench.mounted(&mut figures)?;
    }
    figures.print();
    println!();
    println!(
        "fsync to put: {:.2}; to a put with the attribute: {:.2}",
        figures.ratio(FSYNC, PUT),
        figures.ratio(FSYNC, NAMED_PUT)
    );
    println!("sequential write to put: {:.2}", figures.ratio(WRITE, LARGE_PUT));
    println!("sequential read to get: {:.2}", figures.ratio(READ, LARGE_GET));
    Ok(())
}

/// The program, as it is released: what the environment names, or one that is built.
pub(super) fn program() -> Result<PathBuf, String> {
    match std::env::var_os("ONDOL_BENCH_PROGRAM") {
        Some(named) => Ok(PathBuf::from(named)),
        None => Ok(crate::lab(&["--features", "object"])?.with_file_name("ondol")),
    }
}

struct Bench<'s> {
    server: &'s Server,
    program: PathBuf,
    making: Vec<String>,
    dir: PathBuf,
}

/// What the mount has asked of the store.
struct Asked {
    puts: f64,
    gets: f64,
    up: f64,
    down: f64,
}

impl Bench<'_> {
    /// Large objects put and got by curl.
    fn large_objects(&self, figures: &mut Figures) -> Result<(), String> {
        let large = self.file("large", OBJECT)?;
        let (url, sum) = (self.url("large"), summed(&large)?);
        let before = processor_seconds(self.server.process.id())?;
        let put = self.curl(&[&["-H", &sum, "-T", path(&large)?, &url]])?;
        let between = processor_seconds(self.server.process.id())?;
        let got = self.curl(&[&["-H", NO_BODY, "-o", "/dev/null", &url]])?;
        let after = processor_seconds(self.server.process.id())?;
        figures.add(LARGE_PUT, "MiB/s", OBJECT as f64 / MIB / put[0]);
        figures.add(LARGE_GET, "MiB/s", OBJECT as f64 / MIB / got[0]);
        figures.add("put of 64 MiB: the server's processor", "s/GiB", (between - before) * GIB / OBJECT as f64);
        figures.add("get of 64 MiB: the server's processor", "s/GiB", (after - between) * GIB / OBJECT as f64);
        Ok(())
    }

    /// As many small objects as there were fsyncs, of the size that those had on average.
    fn small_objects(&self, bytes: usize, figures: &mut Figures) -> Result<(), String> {
        let small = self.dir.join("small");
        fs::write(&small, random(bytes)?).map_err(|e| format!("{}: {e}", small.display()))?;
        let sum = summed(&small)?;
        for (name, more) in [(PUT, None), (NAMED_PUT, Some(NAMED))] {
            let urls: Vec<String> = (0..SMALL).map(|n| self.url(&format!("small-{n}"))).collect();
            let _ = self.curl(&urls.iter().map(|url| vec!["-H", NO_BODY, "-X", "DELETE", url]).collect::<Vec<_>>());
            let request = |url| {
                let own = more.into_iter().flat_map(|header| ["-H", header]);
                let all = ["-H", "If-None-Match: *", "-H", &sum];
                all.into_iter().chain(own).chain(["-T", path(&small).unwrap_or_default(), url]).collect()
            };
            let puts: Vec<Vec<&str>> = urls.iter().map(|url| request(url)).collect();
            figures.add(name, "ms", middle(self.curl(&puts)?) * 1000.0);
        }
        Ok(())
    }

    /// Seconds for each request, all in one connection.
    fn curl<W: AsRef<[S]>, S: AsRef<str>>(&self, requests: &[W]) -> Result<Vec<f64>, String> {
        let mut command = Command::new("curl");
        let user = format!("{KEY}:{KEY}");
        for (n, request) in requests.iter().enumerate() {
            if n > 0 {
                command.arg("--next");
            }
            command.args(["-sS", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user]);
            command.args(["-w", "%{stderr}%{time_total}\n"]).args(request.as_ref().iter().map(AsRef::as_ref));
        }
        let output = command.stdout(Stdio::null()).output().map_err(|e| format!("curl: {e}"))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let said: Vec<&str> = text.lines().filter(|line| line.parse::<f64>().is_err()).collect();
            return Err(format!("curl ended with {}: {}", output.status, said.join("; ")));
        }
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// A volume of its own, mounted, written, mounted again, read.
    fn mounted(&self, figures: &mut Figures) -> Result<(), String> {
        let bytes = random(FILE)?;
        self.ondol(&[&["mkfs", "--size", "8G", "-F"], &*words(&self.making), &[&self.target()]].concat())?;
        self.with_mount(|mount| {
            let before = self.asked(mount)?;
            self.fsyncs(mount, &bytes, figures)?;
            let after = self.asked(mount)?;
            let (puts, up) = (after.puts - before.puts, after.up - before.up);
            figures.add("puts for each fsync", "", puts / SMALL as f64);
            figures.add("bytes of a put", "", up / puts);
            self.small_objects((up / puts) as usize, figures)?;
            self.used("sequential write", mount, figures, |figures| {
                let (mut file, began) = (create(&mount.join("large"))?, Instant::now());
                bytes.chunks(PIECE).try_for_each(|piece| file.write_all(piece)).map_err(said)?;
                file.sync_all().map_err(said)?;
                figures.add(WRITE, "MiB/s", FILE as f64 / MIB / began.elapsed().as_secs_f64());
                Ok(())
            })
        })?;
        self.with_mount(|mount| {
            self.used("sequential read", mount, figures, |figures| {
                let (mut file, began) = (File::open(mount.join("large")).map_err(said)?, Instant::now());
                let mut piece = vec![0; PIECE];
                for expected in bytes.chunks(PIECE) {
                    file.read_exact(&mut piece).map_err(said)?;
                    if piece != expected {
                        return Err("what was read is not what was written".into());
                    }
                }
                figures.add(READ, "MiB/s", FILE as f64 / MIB / began.elapsed().as_secs_f64());
                Ok(())
            })
        })?;
        self.ondol(&["delete", "--yes", &self.target()])
    }

    fn fsyncs(&self, mount: &Path, bytes: &[u8], figures: &mut Figures) -> Result<(), String> {
        let file = create(&mount.join("small"))?;
        let mut took = Vec::with_capacity(SMALL);
        for n in 0..SMALL {
            let began = Instant::now();
            let at = (n * 4096) as u64;
            file.write_all_at(&bytes[n * 4096..][..4096], at).and_then(|()| file.sync_all()).map_err(said)?;
            took.push(began.elapsed().as_secs_f64());
        }
        figures.add(FSYNC, "ms", middle(took) * 1000.0);
        Ok(())
    }

    /// What `work` with the large file takes of processors, and asks of the store.
    fn used(
        &self,
        name: &str,
        mount: &Path,
        figures: &mut Figures,
        work: impl FnOnce(&mut Figures) -> Result<(), String>,
    ) -> Result<(), String> {
        let pids = [
            ("the server's processor", self.server.process.id()),
            ("the mount's processor", self.pid(mount)?),
            ("the caller's processor", std::process::id()),
        ];
        let before: Vec<f64> = pids.iter().map(|(_, pid)| processor_seconds(*pid)).collect::<Result<_, _>>()?;
        let asked = self.asked(mount)?;
        work(figures)?;
        for ((whose, pid), before) in pids.iter().zip(before) {
            let seconds = processor_seconds(*pid)? - before;
            figures.add(&format!("{name}: {whose}"), "s/GiB", seconds * GIB / FILE as f64);
        }
        let now = self.asked(mount)?;
        figures.add(&format!("{name}: puts and parts"), "", now.puts - asked.puts);
        figures.add(&format!("{name}: gets"), "", now.gets - asked.gets);
        figures.add(&format!("{name}: bytes up for each byte"), "", (now.up - asked.up) / FILE as f64);
        figures.add(&format!("{name}: bytes down for each byte"), "", (now.down - asked.down) / FILE as f64);
        Ok(())
    }

    fn with_mount(&self, work: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
        let mount = self.dir.join("mnt");
        self.ondol(&["mount", &self.target(), path(&mount)?])?;
        let done = work(&mount);
        let unmounted = self.ondol(&["umount", path(&mount)?]);
        done.and(unmounted)
    }

    fn info(&self, mount: &Path) -> Result<serde_json::Value, String> {
        let said = printed(Command::new(&self.program).args(["info", "--json"]).arg(mount))?;
        serde_json::from_str(&said).map_err(|e| e.to_string())
    }

    fn asked(&self, mount: &Path) -> Result<Asked, String> {
        let info = self.info(mount)?;
        let of = |name: &str| info.pointer(&format!("/bucket/requests/{name}")).and_then(serde_json::Value::as_f64);
        let number = |name: &str| of(name).ok_or_else(|| format!("`ondol info` has no {name}"));
        Ok(Asked { puts: number("puts")?, gets: number("gets")?, up: number("up")?, down: number("down")? })
    }

    fn pid(&self, mount: &Path) -> Result<u32, String> {
        let pid = self.info(mount)?.get("pid").and_then(serde_json::Value::as_u64);
        pid.and_then(|pid| u32::try_from(pid).ok()).ok_or_else(|| "`ondol info` has no pid".to_owned())
    }

    fn target(&self) -> String {
        format!("s3://{BUCKET}/bench-volume")
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{BUCKET}/bench/{name}", self.server.address)
    }

    fn ondol(&self, args: &[&str]) -> Result<(), String> {
        crate::run(self.server.named_to(Command::new(&self.program).args(args)))
    }

    /// A file of random bytes.
    fn file(&self, name: &str, len: usize) -> Result<PathBuf, String> {
        let path = self.dir.join(name);
        if !path.exists() {
            fs::write(&path, random(len)?).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(path)
    }
}

/// The sum of nothing, of requests that send nothing.
const NO_BODY: &str = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The header with the sum that is signed. The server compares it with what comes, as it does for a mount.
fn summed(file: &Path) -> Result<String, String> {
    let said = printed(Command::new("sha256sum").arg(file))?;
    let sum = said.split_whitespace().next().unwrap_or_default();
    Ok(format!("x-amz-content-sha256: {sum}"))
}

fn words(making: &[String]) -> Vec<&str> {
    making.iter().map(String::as_str).collect()
}

fn random(len: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; len];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(said)?;
    Ok(bytes)
}

fn create(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn path(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))
}

fn said(e: std::io::Error) -> String {
    e.to_string()
}
