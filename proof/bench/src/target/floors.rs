//! Targets without a volume, over the transports of ours: the server of nothing, and a directory handed on.

use super::image::{WorkDir, check_room};
use super::mounted::{Mounted, mount_table};
use super::session::{Session, Setting};
use super::spec::Through;
use crate::BenchError;
use crate::command::Program;
use crate::counters::Probe;
use crate::error::Context;
use crate::fs::std_fs::StdFs;
use crate::guarantee;
use crate::interrupt::Interrupt;
use ondol::machine::mountinfo;
use std::ffi::OsStr;
use std::path::Path;

/// What is handed on, unless a directory is named.
const BELOW: &str = "/dev/shm";

/// Names and sizes in memory.
pub(super) fn null(options: &str, interrupt: &Interrupt) -> Result<Session, BenchError> {
    session("null", options, None, guarantee::of_null(), interrupt)
}

/// A fresh directory, handed on.
pub(super) fn passthrough(target: &Through, setting: &Setting, interrupt: &Interrupt) -> Result<Session, BenchError> {
    let parent = target.below.as_deref().unwrap_or(Path::new(BELOW));
    check_room(parent, setting.footprint)?;
    let below = WorkDir::create_in(parent)?;
    let path = below.path().canonicalize().context(|| below.path().display().to_string())?;
    let table = mount_table()?;
    let lies_on = mountinfo::covering(&table, &path);
    let lies_on = lies_on.ok_or_else(|| BenchError::Unfit(format!("{}: no mount holds it", path.display())))?;
    session("passthrough", &target.options, Some(below), guarantee::of_passthrough(lies_on), interrupt)
}

fn session(
    what: &str,
    options: &str,
    below: Option<WorkDir>,
    guarantee: String,
    interrupt: &Interrupt,
) -> Result<Session, BenchError> {
    let root = rustix::process::geteuid().is_root();
    let umount: &[&str] = if root { &["umount"] } else { &["fusermount3", "-u"] };
    let mount = Mounted::by_telling_server(umount, interrupt, |point| {
        let program = Program::own()?.args(["bench", "serve", what, "-o", options]);
        let below = below.as_ref().map(|below| below.path().as_os_str());
        Ok(program.args(below.into_iter().chain([point.as_os_str()]).collect::<Vec<&OsStr>>()))
    })?;
    // What is in it goes with what it is handed on to, or with the server's memory.
    let work = WorkDir::create_in_image(mount.path())?;
    let fs = StdFs::new(work.path()).context(|| work.path().display().to_string())?;
    Ok(Session {
        fs: Box::new(fs),
        guarantee,
        probe: Probe::None,
        work: Some(work),
        volume: None,
        foreign: None,
        nvm: None,
        mount: Some(mount),
        device: None,
        image: None,
        pool: None,
        below,
    })
}
