//! Who has an image, in words.

use super::devices::Device;
use super::elsewhere::{self, Seen};
use super::locks::{self, Lock, shown};
use super::mountinfo::{Entry, FS_TYPE};
use crate::part::part_in;
use crate::target::pool_of;
use std::path::{Path, PathBuf};

/// Whoever keeps others from an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A process that has it locked.
    Process { pid: u32, command: String, at: Option<Seen> },
    /// The kernel, which has a device mounted.
    Mount { node: PathBuf, point: PathBuf },
    /// The kernel, which swaps to a device.
    Swap { node: PathBuf },
    /// Another device is made of it.
    Part { node: PathBuf, of: String },
    /// Somebody has the device for itself.
    Claim { node: PathBuf },
    /// A loop device shows the file, and this process may not look who uses that.
    Loop { node: PathBuf },
    /// Nobody who can be seen.
    Unknown,
}

impl Holder {
    /// Whether it may be gone in a moment: programs of ours that serve nothing (any more), and those that look at each
    /// new device.
    pub(crate) fn is_passing(&self) -> bool {
        const PASSING: [&str; 4] = ["ondol", "(udev-worker)", "systemd-udevd", "blkid"];
        match self {
            Self::Process { pid, command, at } => {
                *pid != std::process::id() && at.is_none() && PASSING.contains(&&**command)
            }
            _ => false,
        }
    }

    /// Nothing is known that would say how long it stays: another mount namespace may have copied a mount only to take
    /// it away.
    pub(crate) fn is_obscure(&self) -> bool {
        match self {
            Self::Process { at: Some(at), .. } => at.by.is_some(),
            _ => matches!(self, Self::Claim { .. } | Self::Unknown),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Process { pid, .. } if *pid == std::process::id() => "this process itself".into(),
            Self::Process { pid, command, at: None } => format!("process {pid} ({command})"),
            Self::Process { pid, command, at: Some(at) } => {
                format!("process {pid} ({command}), which serves it {}", at.text())
            }
            Self::Mount { node, point } => {
                format!("the kernel, which has {} mounted on {}", shown(node), shown(point))
            }
            Self::Swap { node } => format!("the kernel, which swaps to {}", shown(node)),
            Self::Part { node, of } => format!("/dev/{of}, of which {} is a part", shown(node)),
            Self::Claim { node } => {
                format!("another program or a mount elsewhere, which has {} for itself", shown(node))
            }
            Self::Loop { node } => {
                let node = shown(node);
                format!("{node}, a loop device that shows it (`losetup -d {node}` detaches it)")
            }
            Self::Unknown => "another process".into(),
        }
    }
}

/// The processes that have the inode `ino` of the file system `dev` locked; `paths` are the names under which mounts
/// show it.
pub(crate) fn by_lock(dev: u64, ino: u64, mounts: &[Entry], paths: &[PathBuf]) -> Vec<Holder> {
    let named = |entry: &Entry| paths.contains(&entry.source);
    let holder = |lock: Lock| match locks::command(lock.pid) {
        Some(command) => {
            let at = served(mounts, &named).or_else(|| served_by(lock.pid, mounts));
            Holder::Process { pid: lock.pid, command, at }
        }
        None => Holder::Unknown,
    };
    locks::of(dev, ino).into_iter().map(holder).collect()
}

/// The mount of ours that `named` takes, in whichever mount namespace it is.
fn served(mounts: &[Entry], named: &dyn Fn(&Entry) -> bool) -> Option<Seen> {
    let wanted = |entry: &Entry| entry.fs_type == FS_TYPE && named(entry);
    let here = mounts.iter().rfind(|entry| wanted(entry)).map(|entry| Seen { point: entry.point.clone(), by: None });
    here.or_else(|| elsewhere::elsewhere(wanted).next())
}

/// Where a process that has something beside an image, as the pool in front of it, serves the image: that is open, too.
fn served_by(pid: u32, mounts: &[Entry]) -> Option<Seen> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let open: Vec<PathBuf> = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect();
    if !open.iter().any(|path| path == Path::new("/dev/fuse")) {
        return None;
    }
    let named = |entry: &Entry| {
        let in_part = part_in(&entry.source).map(|(file, _)| file);
        let file = pool_of(&entry.source).or(in_part).unwrap_or(&entry.source);
        open.iter().any(|path| path == file || *path == entry.source)
    };
    served(mounts, &named)
}

/// What is seen of the kernel's use of a device, and of its partitions and its disk; nothing where it is not used or
/// not seen.
pub(crate) fn by_kernel(device: &Device, mounts: &[Entry], kin: &[Device]) -> Vec<Holder> {
    let all = || std::iter::once(device).chain(kin);
    let mounted = all().find_map(|d| mounts.iter().rfind(|e| e.device_number() == Some(d.number)).map(|e| (d, e)));
    if let Some((d, entry)) = mounted {
        return vec![Holder::Mount { node: d.node.clone(), point: entry.point.clone() }];
    }
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    if let Some(d) = all().find(|d| swaps.lines().any(|l| l.split_whitespace().next().map(Path::new) == Some(&*d.node)))
    {
        return vec![Holder::Swap { node: d.node.clone() }];
    }
    let part = |d: &Device| {
        let (major, minor) = (rustix::fs::major(d.number), rustix::fs::minor(d.number));
        let mut held = std::fs::read_dir(format!("/sys/dev/block/{major}:{minor}/holders")).ok()?;
        let of = held.next()?.ok()?.file_name().to_string_lossy().into_owned();
        Some(Holder::Part { node: d.node.clone(), of })
    };
    all().find_map(part).into_iter().collect()
}

/// In one line, the first few of them.
pub(crate) fn text(holders: &[Holder]) -> String {
    const MOST: usize = 3;
    let mut texts: Vec<String> = holders.iter().map(Holder::text).collect();
    texts.dedup();
    let more = texts.len().saturating_sub(MOST);
    texts.truncate(MOST);
    let text = texts.join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}
