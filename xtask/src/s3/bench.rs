//! `cargo xtask s3 --bench`: a mount beside the server by itself. Both do the same by turns, and medians are printed.

#![allow(clippy::disallowed_methods, reason = "a bench measures by the real clock")]

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
const SMALL: usize = 200;
/// What the log object of a transaction of 4 KiB has, about.
const SMALL_BYTES: usize = 15_000;

const MIB: f64 = (1 << 20) as f64;

/// What is measured, in its unit, a figure for each round.
#[derive(Default)]
struct Figures(Vec<(&'static str, &'static str, Vec<f64>)>);

impl Figures {
    fn add(&mut self, name: &'static str, unit: &'static str, figure: f64) {
        match self.0.iter_mut().find(|(known, _, _)| *known == name) {
            Some((_, _, figures)) => figures.push(figure),
            None => self.0.push((name, unit, vec![figure])),
        }
    }

    fn median(&self, name: &str) -> f64 {
        let figures = self.0.iter().find(|(known, _, _)| *known == name).map(|(_, _, figures)| figures.clone());
        middle(figures.unwrap_or_default())
    }

    fn print(&self) {
        println!("| | median | lowest | highest |\n|---|--:|--:|--:|");
        for (name, unit, figures) in &self.0 {
            let (low, high) = figures.iter().fold((f64::MAX, 0f64), |(low, high), n| (low.min(*n), high.max(*n)));
            println!("| {name} | {:.2} {unit} | {low:.2} | {high:.2} |", middle(figures.clone()));
        }
        let ratio = |ours, theirs| self.median(ours) / self.median(theirs);
        println!();
        println!("fsync to put: {:.2}", ratio("fsync of 4 KiB, p50", "put of 15,000 bytes, p50"));
        println!("sequential write to put: {:.2}", ratio("sequential write, fsync", "put of 64 MiB"));
        println!("sequential read to get: {:.2}", ratio("sequential read, cold", "get of 64 MiB"));
    }
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Words: `--rounds N`, and arguments of `ondol mkfs`, as `--chunk 64K`.
pub(super) fn run(server: &Server, words: &[String]) -> Result<(), String> {
    let (mut rounds, mut making) = (5, vec![]);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--rounds" {
            let number = words.next().and_then(|number| number.parse().ok());
            rounds = number.ok_or("--rounds has a number")?;
        } else {
            making.push(word.clone());
        }
    }
    let program = match std::env::var_os("ONDOL_BENCH_PROGRAM") {
        Some(named) => PathBuf::from(named),
        None => built()?,
    };
    let bench = Bench { server, program, making, dir: server.dir.join("bench") };
    fs::create_dir_all(bench.dir.join("mnt")).map_err(|e| format!("{}: {e}", bench.dir.display()))?;
    let mut figures = Figures::default();
    for round in 1..=rounds {
        eprintln!("xtask: round {round} of {rounds}");
        bench.server_alone(&mut figures)?;
        bench.mounted(&mut figures)?;
    }
    figures.print();
    Ok(())
}

/// The program, as it is released.
fn built() -> Result<PathBuf, String> {
    let mut build = Command::new(env!("CARGO"));
    crate::run(build.args(["build", "--release", "-p", "ondol-cli", "--features", "object"]))?;
    Ok(crate::metadata()?.target_directory.into_std_path_buf().join("release/ondol"))
}

struct Bench<'s> {
    server: &'s Server,
    program: PathBuf,
    making: Vec<String>,
    dir: PathBuf,
}

impl Bench<'_> {
    /// Objects put and got by curl.
    fn server_alone(&self, figures: &mut Figures) -> Result<(), String> {
        let (large, small) = (self.file("large", OBJECT)?, self.file("small", SMALL_BYTES)?);
        let url = |name: &str| format!("http://{}/{BUCKET}/bench/{name}", self.server.address);
        let put = self.curl(&[&["-T", path(&large)?, &url("large")]])?;
        let got = self.curl(&[&["-o", "/dev/null", &url("large")]])?;
        figures.add("put of 64 MiB", "MiB/s", OBJECT as f64 / MIB / put[0]);
        figures.add("get of 64 MiB", "MiB/s", OBJECT as f64 / MIB / got[0]);
        let names: Vec<String> = (0..SMALL).map(|n| url(&format!("small-{n}"))).collect();
        let _ = self.curl(&names.iter().map(|name| vec!["-X", "DELETE", name]).collect::<Vec<_>>());
        let small = path(&small)?;
        let puts = names.iter().map(|name| vec!["-H", "If-None-Match: *", "-T", small, name]);
        let took = self.curl(&puts.collect::<Vec<_>>())?;
        figures.add("put of 15,000 bytes, p50", "ms", middle(took) * 1000.0);
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
            // What is sent is not summed: curl would sign the sum of nothing.
            command.args(["-sS", "--fail", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user]);
            command.args(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
            command.args(["-w", "%{stderr}%{time_total}\n"]).args(request.as_ref().iter().map(AsRef::as_ref));
        }
        let output = command.stdout(Stdio::null()).output().map_err(|e| format!("curl: {e}"))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("curl failed: {}", text.lines().last().unwrap_or_default()));
        }
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// A volume of its own, mounted, written, mounted again, read.
    fn mounted(&self, figures: &mut Figures) -> Result<(), String> {
        let mount = self.dir.join("mnt");
        let bytes = random(FILE)?;
        self.ondol(&[&["mkfs", "--size", "8G", "-F"], &*words(&self.making), &[&self.target()]].concat())?;
        let done = self.with_mount(&mount, || {
            let file = create(&mount.join("small"))?;
            let mut took = Vec::with_capacity(SMALL);
            for n in 0..SMALL {
                let began = Instant::now();
                let at = (n * 4096) as u64;
                file.write_all_at(&bytes[n * 4096..][..4096], at).and_then(|()| file.sync_all()).map_err(said)?;
                took.push(began.elapsed().as_secs_f64());
            }
            figures.add("fsync of 4 KiB, p50", "ms", middle(took) * 1000.0);
            let (mut file, began) = (create(&mount.join("large"))?, Instant::now());
            bytes.chunks(PIECE).try_for_each(|piece| file.write_all(piece)).map_err(said)?;
            file.sync_all().map_err(said)?;
            figures.add("sequential write, fsync", "MiB/s", FILE as f64 / MIB / began.elapsed().as_secs_f64());
            Ok(())
        });
        done?;
        let done = self.with_mount(&mount, || {
            let (mut file, began) = (File::open(mount.join("large")).map_err(said)?, Instant::now());
            let mut piece = vec![0; PIECE];
            for expected in bytes.chunks(PIECE) {
                file.read_exact(&mut piece).map_err(said)?;
                if piece != expected {
                    return Err("what was read is not what was written".into());
                }
            }
            figures.add("sequential read, cold", "MiB/s", FILE as f64 / MIB / began.elapsed().as_secs_f64());
            Ok(())
        });
        done?;
        self.ondol(&["delete", "--yes", &self.target()])
    }

    fn with_mount(&self, mount: &Path, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        self.ondol(&["mount", &self.target(), path(mount)?])?;
        let done = work();
        let unmounted = self.ondol(&["umount", path(mount)?]);
        done.and(unmounted)
    }

    fn target(&self) -> String {
        format!("s3://{BUCKET}/bench-volume")
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
