//! Where volumes are mounted in all mount namespaces: a copy of a mount, as containers and units with private mounts
//! have it, keeps its server going.

use super::locks::{self, shown};
use super::mountinfo::{self, Entry};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A mount, and the mount namespace that it is seen in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it is mounted.
    pub point: PathBuf,
    /// A process of that namespace and its command, if it is another one than this process's.
    pub by: Option<(u32, String)>,
}

impl Seen {
    /// Where that is, to come after "mounted" or "serves it".
    pub fn text(&self) -> String {
        let point = shown(&self.point);
        match &self.by {
            Some((pid, command)) => format!("on {point} in the mount namespace of process {pid} ({command})"),
            None => format!("on {point}"),
        }
    }
}

/// The mounts that `wanted` takes: the topmost one of each mount namespace, this process's own first. Namespaces that
/// this process may not look into, or that no process is in, are left out.
pub fn seen(wanted: impl Fn(&Entry) -> bool) -> Vec<Seen> {
    let own = mountinfo::read().unwrap_or_default();
    let here = own.into_iter().rfind(&wanted).map(|entry| Seen { point: entry.point, by: None });
    here.into_iter().chain(elsewhere(wanted)).collect()
}

/// The same of all other mount namespaces.
pub(super) fn elsewhere(wanted: impl Fn(&Entry) -> bool) -> impl Iterator<Item = Seen> {
    let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut known: BTreeSet<PathBuf> = space("self").into_iter().collect();
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    let mut pids: Vec<u32> = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The first process of a namespace is likely to be the one that it is known by.
    pids.sort_unstable();
    pids.into_iter().filter_map(move |pid| {
        if !known.insert(space(&pid.to_string())?) {
            return None;
        }
        let entry = mountinfo::read_of(pid).ok()?.into_iter().rfind(&wanted)?;
        Some(Seen { point: entry.point, by: Some((pid, locks::command(pid).unwrap_or_default())) })
    })
}
