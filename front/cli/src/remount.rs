//! `mount -o remount`, as mount(8) hands it to its helper: the kernel's flags are changed, and nothing else can be.
//!
//! mount(8) merges what fstab, or else the mount table, says with what was asked for. So options of the volume and of
//! FUSE come here that nobody wants to change, and options of the server: they must be as they are. The flags that come
//! are all that the mount is to have: a word that takes one away, as `exec` does, comes as the absence of `noexec`.

use crate::args;
use crate::bounded;
use crate::failure::{Failure, MOUNT, MOUNT_USAGE, Outcome};
use crate::options::Wishes;
use crate::say::say;
use ondol::Options;
use ondol::machine::mountinfo::Entry;
use ondol_fuse::{MountOptions, client};
use rustix::mount::MountFlags;
use std::path::Path;
use std::process::ExitCode;

/// Changes the flags of the mount on the helper's directory.
pub(crate) fn remount(args: &args::MountHelper) -> Outcome {
    let entry = client::find(&args.dir).map_err(Failure::with(MOUNT))?;
    if !same_directory(&entry.point, &args.dir) {
        return Err(Failure::new(MOUNT, format!("{} is not a mount point", args.dir.display())));
    }
    let none = MountOptions { flags: MountFlags::empty(), ..MountOptions::default() };
    let wishes = agreed(
        &entry,
        none,
        &args.options,
        args.sloppy,
        "cannot be changed by a remount: unmount it and mount it again",
    )?;
    let read_only = if wishes.mount.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    if args.fake {
        return Ok(ExitCode::SUCCESS);
    }
    let fail = |e| Failure::new(MOUNT, format!("cannot remount {}: {e}", entry.point.display()));
    rustix::mount::mount_remount(&entry.point, wishes.mount.flags | read_only, "").map_err(fail)?;
    if wishes.mount.read_only {
        client::sync(&entry.point).map_err(Failure::with(MOUNT))?;
    }
    if args.verbose {
        say!("{} remounted", entry.point.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked of a mount that is there: its flags, over `base`. All other options must be as they are; `why` says of
/// one that is not what is against it.
///
/// # Errors
/// As [`Wishes::read`]; an option that is another, or writing where the volume was opened for reading only.
pub(crate) fn agreed(
    entry: &Entry,
    base: MountOptions,
    lists: &[String],
    sloppy: bool,
    why: &str,
) -> Result<Wishes, Failure> {
    let point = entry.point.display();
    let fixed = |word: &str| Failure::new(MOUNT_USAGE, format!("{point}: option `{word}` {why}"));
    let joined = lists.join(",");
    let shown: Vec<&str> = entry.options.split(',').collect();
    let asked = joined.split(',').filter(|word| *word != "remount" && !is_shown(&shown, word));
    let list = asked.collect::<Vec<_>>().join(",");
    let wishes = Wishes::read_over(base, std::slice::from_ref(&list), sloppy)?;
    if let Some(word) = list.split(',').find(|word| FUSE_WORDS.contains(&name(word))) {
        return Err(fixed(word));
    }
    let running = Running::ask(&entry.point)?;
    if running.read_only && !wishes.mount.read_only {
        let why = "it was opened for reading only: unmount it and mount it again";
        return Err(Failure::new(MOUNT, format!("cannot mount {point} for writing: {why}")));
    }
    if let Some(word) = running.other_than(&list)? {
        return Err(fixed(&word));
    }
    if let Some(word) = wishes.own.iter().find(|word| !running.served_with.split(',').any(|now| now == *word)) {
        return Err(fixed(word));
    }
    Ok(wishes)
}

/// Options of FUSE, which the kernel takes at a mount's beginning only.
const FUSE_WORDS: [&str; 14] = [
    "allow_other",
    "allow_root",
    "default_permissions",
    "fakeroot",
    "minixdf",
    "uid",
    "gid",
    "umask",
    "auto_unmount",
    "fsname",
    "max_read",
    "max_threads",
    "transport",
    "open_requests",
];

fn name(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

/// Whether the kernel itself shows the word for this mount; its flags are no such words.
fn is_shown(shown: &[&str], word: &str) -> bool {
    !matches!(word, "ro" | "rw") && shown.contains(&word)
}

fn same_directory(a: &Path, b: &Path) -> bool {
    b.canonicalize().is_ok_and(|b| a == b)
}

/// How the volume is served, as its server says.
struct Running {
    read_only: bool,
    options: String,
    /// What its server has taken itself.
    served_with: String,
}

impl Running {
    fn ask(point: &Path) -> Result<Self, Failure> {
        let told = bounded::ask(&["info".as_ref(), "--json".as_ref(), point.as_os_str()]);
        let json = told.map_err(|failure| Failure { code: MOUNT, ..failure })?;
        let info: serde_json::Value = serde_json::from_slice(&json).map_err(Failure::with(MOUNT))?;
        let mount = info.get("mount").cloned().unwrap_or_default();
        let text = |name| mount.get(name).and_then(|o| o.as_str()).unwrap_or_default().to_owned();
        let read_only = mount.get("read_only") == Some(&true.into());
        Ok(Self { read_only, options: text("options"), served_with: text("served_with") })
    }

    /// The first option in `list` that is another than it is now; access, and reading only, are the kernel's here.
    fn other_than(&self, list: &str) -> Result<Option<String>, Failure> {
        let read =
            |text: &str| Options::parse(text).map(|o| o.with_read_only(false).with_atime(true).with_diratime(true));
        let now = read(&self.options).map_err(Failure::with(MOUNT))?;
        let changes = |word: &&str| {
            let with = read(&format!("{},{word}", self.options));
            // What the volume does not know is not its own.
            with.is_ok_and(|with| with != now)
        };
        Ok(list.split(',').find(changes).map(str::to_owned))
    }
}
