//! One program on one target: image, mount, script, unmount, e2fsck.

use super::{Outcome, Program, Report, Target};
use crate::program::{mount, no_fuse_mount, program};
use ondol_laboratory::kill::FuseMount;
use ondol_testkit::image::{self, KernelMount};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Exit code of a script that cannot do its work here.
const SKIPPED: i32 = 77;

/// Lines of a failed script's output that are shown.
const SHOWN: usize = 25;

/// What is common to the runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How much longer than usual: 1 for the usual depth, 0 for a glance.
    pub scale: u64,
    /// What random choices begin from.
    pub seed: u64,
    /// Where what the scripts print is kept.
    pub logs: PathBuf,
    /// Size of the image instead of the script's.
    pub size: Option<String>,
    /// More options of mke2fs, for other forms of images.
    pub mke2fs: Vec<String>,
    /// Older lists of the kernel's cases are made anew.
    begun: SystemTime,
    /// Whoever started this asks for its end.
    ended: Arc<AtomicBool>,
}

impl Setting {
    /// Runs that begin now.
    pub fn new(scale: u64, seed: u64, logs: PathBuf) -> Self {
        // Scripts that write there run in a directory of their own.
        let logs = std::path::absolute(&logs).unwrap_or(logs);
        Self { scale, seed, logs, size: None, mke2fs: Vec::new(), begun: SystemTime::now(), ended: Arc::default() }
    }

    /// Ends what runs, and cleans up, when a signal asks for it.
    ///
    /// # Errors
    /// The signals cannot be caught.
    pub fn catch_signals(&self) -> std::io::Result<()> {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&self.ended))?;
        }
        Ok(())
    }

    /// Whether a signal asked for the end.
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

enum Mounted {
    Ondol(FuseMount),
    Kernel(KernelMount),
    ByScript(PathBuf),
}

impl Mounted {
    fn dir(&self) -> &Path {
        match self {
            Self::Ondol(mount) => mount.dir(),
            Self::Kernel(mount) => mount.dir(),
            Self::ByScript(dir) => dir,
        }
    }

    fn end(self) -> Result<(), String> {
        match self {
            Self::Ondol(mut mount) => mount.unmount(),
            Self::Kernel(mount) => mount.close().map_err(|e| e.to_string()),
            Self::ByScript(dir) => left_mounted(&dir),
        }
    }
}

/// A script that mounts by itself must unmount.
fn left_mounted(dir: &Path) -> Result<(), String> {
    let table = fs::read_to_string("/proc/self/mounts").map_err(|e| e.to_string())?;
    if !table.lines().any(|line| line.split(' ').nth(1) == dir.to_str()) {
        return Ok(());
    }
    let _ = Command::new("umount").arg("-l").arg(dir).status();
    Err("the script left its mount behind".into())
}

/// Runs `program` on `target`. A list of cases that it writes is compared with the one of the kernel's ext4, which is
/// run for it if it was not yet.
pub fn run(program: &Program, target: &Target, setting: &Setting) -> Report {
    let begun = Instant::now();
    let outcome = match unavailable(program, target) {
        Some(why) => Outcome::Skipped(why),
        None => carry_out(program, target, setting).unwrap_or_else(Outcome::Failed),
    };
    Report::new(program, target, outcome, begun.elapsed().as_secs_f64())
}

fn unavailable(program: &Program, target: &Target) -> Option<String> {
    let here = match target {
        Target::Ondol(_) => no_fuse_mount(),
        Target::Bucket | Target::Scalable | Target::Remap if program.kills => {
            Some("kills the server and looks at its image".into())
        }
        Target::Bucket => no_fuse_mount().or_else(no_buckets),
        Target::Scalable | Target::Remap => no_fuse_mount(),
        Target::Kernel if program.kills => Some("kills the mount".into()),
        Target::Kernel => KernelMount::unavailable().map(str::to_owned),
    };
    here.or_else(|| program.missing())
}

/// Why volumes in object storage cannot be made here.
fn no_buckets() -> Option<String> {
    let said = Command::new(program().ok()?).args(["info", "file:///nowhere"]).output().ok()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    said.contains("built without").then(|| "the program was built without the feature `object`".into())
}

fn carry_out(program: &Program, target: &Target, setting: &Setting) -> Result<Outcome, String> {
    fs::create_dir_all(&setting.logs).map_err(|e| format!("{}: {e}", setting.logs.display()))?;
    let dir = image::scratch_dir().map_err(|e| e.to_string())?;
    let [image, point, host] = ["image", "mounted", "host"].map(|name| dir.path().join(name));
    for dir in [&point, &host] {
        fs::create_dir(dir).map_err(|e| e.to_string())?;
    }
    make(program, setting, target, &image)?;
    // Programs that run as another user reach what they work on.
    let open = Command::new("chmod").arg("755").arg(dir.path()).status();
    open.map_err(|e| e.to_string())?;
    let medium = dir.path().join("medium");
    let options = options(target, &medium);
    let place = bring(target, &image, &medium)?;
    let mounted = match target {
        _ if program.mounts => Mounted::ByScript(point.canonicalize().map_err(|e| e.to_string())?),
        Target::Ondol(_) | Target::Bucket | Target::Scalable | Target::Remap => {
            Mounted::Ondol(mount(&place, &point, &options)?)
        }
        Target::Kernel => Mounted::Kernel(KernelMount::new(&image, "").map_err(|e| e.to_string())?),
    };
    let files = Files { image: &image, host: &host, options: &options };
    let said = script(program, target, setting, &mounted, &files);
    let ended = mounted.end();
    let outcome = said?;
    ended?;
    if place != image {
        ondol(&["export".as_ref(), "-F".as_ref(), &place, &image])?;
    }
    judge(&image)?;
    if program.compared && matches!(outcome, Outcome::Passed(_)) && *target != Target::Kernel {
        compare(program, target, setting)?;
    }
    Ok(outcome)
}

/// Brings the image to where the target has its volumes, `medium`; returns what names it there.
fn bring(target: &Target, image: &Path, medium: &Path) -> Result<PathBuf, String> {
    let place = match target {
        Target::Bucket => {
            fs::create_dir(medium).map_err(|e| e.to_string())?;
            PathBuf::from(format!("file://{}", medium.display()))
        }
        Target::Remap => PathBuf::from(format!("nvm:{}", medium.display())),
        Target::Scalable => {
            ondol(
                &["pool", "create", "--size", "256M"].map(Path::new).into_iter().chain([medium]).collect::<Vec<_>>(),
            )?;
            return Ok(image.to_owned());
        }
        Target::Ondol(_) | Target::Kernel => return Ok(image.to_owned()),
    };
    ondol(&["import".as_ref(), image, &place])?;
    Ok(place)
}

fn make(program: &Program, setting: &Setting, target: &Target, image: &Path) -> Result<(), String> {
    // Pages of a pool have 4 KiB, and blocks of small volumes 1 KiB, unless more is said.
    let size: &[&str] = if matches!(target, Target::Remap) { &["-b", "4096"] } else { &[] };
    let args = ["-q", "-F", "-t", "ext4"].iter().chain(size).map(|&word| word.to_owned());
    let mut args: Vec<String> = args.chain(program.mke2fs.iter().chain(&setting.mke2fs).cloned()).collect();
    args.extend([image.display().to_string(), setting.size.as_ref().unwrap_or(&program.size).clone()]);
    let output = image::run("mke2fs", args).map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn options(target: &Target, medium: &Path) -> String {
    // As a mount for everybody, which the kernel's is.
    let all = if rustix::process::geteuid().is_root() { ",allow_other,default_permissions,suid,dev" } else { "" };
    let mode = match target {
        Target::Kernel => return String::new(),
        Target::Bucket => "durable=remote".to_owned(),
        Target::Scalable => format!("journal=scalable,nvm={}", medium.display()),
        Target::Remap => "journal=remap".to_owned(),
        Target::Ondol(data) => match data.strip_prefix("compressed") {
            None => format!("journal=classic,data={data}"),
            Some("") => "journal=compressed,data=journal".to_owned(),
            Some(_) => "journal=compressed,data=ordered".to_owned(),
        },
    };
    format!("{mode}{all}")
}

struct Files<'a> {
    image: &'a Path,
    host: &'a Path,
    options: &'a str,
}

fn script(
    of: &Program,
    target: &Target,
    setting: &Setting,
    mounted: &Mounted,
    files: &Files<'_>,
) -> Result<Outcome, String> {
    let log = setting.logs.join(format!("{}-{target}.log", of.name));
    let out = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let err = out.try_clone().map_err(|e| e.to_string())?;
    let seconds = of.seconds.saturating_mul(setting.scale.max(1));
    let mut command = Command::new("timeout");
    command.args(["-k", "10", &seconds.to_string(), "bash", "-euo", "pipefail"]).arg(&of.path);
    command.env("MNT", mounted.dir()).env("HOST", files.host).env("IMAGE", files.image).env("OPTIONS", files.options);
    command.env("ONDOL", program()?).env("TARGET", target.to_string()).env("LIST", list(of, target, setting));
    command
        .env("SCALE", setting.scale.max(1).to_string())
        .env("SHORT", if setting.scale == 0 { "yes" } else { "" })
        .env("SEED", setting.seed.to_string())
        .env("LC_ALL", "C.UTF-8");
    let compared = of.compared && (*target == Target::Kernel || unavailable(of, &Target::Kernel).is_none());
    command.env("COMPARED", if compared { "yes" } else { "" });
    command.env("COMMON", of.path.with_file_name("common.sh"));
    command.current_dir(files.host).stdin(Stdio::null()).stdout(out).stderr(err);
    let status = wait(command.spawn().map_err(|e| e.to_string())?, setting)?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(|e| e.to_string())?).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.last().copied().unwrap_or_default().to_owned();
    match status.code() {
        Some(0) => Ok(Outcome::Passed(last)),
        Some(SKIPPED) => Ok(Outcome::Skipped(last)),
        _ => {
            let shown = lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default().join("\n    ");
            Err(format!("ended with {status}; {} ends:\n    {shown}", log.display()))
        }
    }
}

/// Waits for the script. When this program is asked to end, the script is asked too, and what it used is cleaned up.
fn wait(mut script: Child, setting: &Setting) -> Result<ExitStatus, String> {
    loop {
        if let Some(status) = script.try_wait().map_err(|e| e.to_string())? {
            return if setting.is_over() { Err("ended by a signal".into()) } else { Ok(status) };
        }
        if setting.is_over() {
            // timeout(1) hands it on to all that the script started.
            let id = Pid::from_child(&script);
            kill_process(id, Signal::TERM).map_err(|e| e.to_string())?;
            script.wait().map_err(|e| e.to_string())?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has the program do something that must succeed.
fn ondol(args: &[&Path]) -> Result<(), String> {
    let said = Command::new(program()?).args(args).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    if said.status.success() { Ok(()) } else { Err(format!("ondol {args:?} ended with {}:\n{text}", said.status)) }
}

/// What both checkers say of the image that was left.
fn judge(image: &Path) -> Result<(), String> {
    let said = image::run("e2fsck", ["-fn".as_ref(), image.as_os_str()]).map_err(|e| e.to_string())?;
    if !said.status.success() {
        return Err(format!("e2fsck -fn ended with {}:\n{}", said.status, String::from_utf8_lossy(&said.stdout)));
    }
    let mut check = Command::new(program()?);
    let said = check.args(["check", "-n"]).arg(image).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if said.status.success() {
        return Ok(());
    }
    let text = [said.stdout, said.stderr].concat();
    Err(format!("ondol check ended with {}:\n{}", said.status, String::from_utf8_lossy(&text)))
}

fn list(program: &Program, target: &Target, setting: &Setting) -> PathBuf {
    setting.logs.join(format!("{}-{target}.list", program.name))
}

/// Lines `CASE OUTCOME`.
fn cases(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let split = |line: &str| line.rsplit_once(' ').map(|(case, outcome)| (case.trim().to_owned(), outcome.to_owned()));
    Ok(text.lines().filter_map(split).collect())
}

fn compare(program: &Program, target: &Target, setting: &Setting) -> Result<(), String> {
    let wanted = list(program, &Target::Kernel, setting);
    let is_new = fs::metadata(&wanted).and_then(|m| m.modified()).is_ok_and(|at| at >= setting.begun);
    if !is_new {
        if unavailable(program, &Target::Kernel).is_some() {
            return Ok(());
        }
        carry_out(program, &Target::Kernel, setting)?;
    }
    let (found, wanted) = (cases(&list(program, target, setting))?, cases(&wanted)?);
    let names: std::collections::BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let of = |cases: &BTreeMap<String, String>, name: &String| cases.get(name).map_or("not run", |s| s).to_owned();
    let differ: Vec<String> = names
        .into_iter()
        .filter(|name| found.get(*name) != wanted.get(*name))
        .map(|name| format!("{name}: {} here, {} in the kernel", of(&found, name), of(&wanted, name)))
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} cases differ:\n    {}", differ.len(), wanted.len(), differ.join("\n    ")))
}
