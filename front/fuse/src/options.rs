//! The `-o` options that concern the mount itself, as mount.fuse(8) and mount(8) name them.

use ondol::Attr;
use ondol::machine::mountinfo::Entry;
use rustix::mount::MountFlags;

/// How a volume is mounted. The defaults are those of FUSE: only the mounting user has access, set-uid programs and
/// devices are not honoured. The kernel checks permissions (`default_permissions`) unless root mounts for itself alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Every user may use the mount.
    pub allow_other: bool,
    /// Root may use the mount besides its user.
    pub allow_root: bool,
    /// The kernel checks permissions even where root mounts for itself alone.
    pub default_permissions: bool,
    /// Nobody checks permissions: who may use the mount may do what root may, unless `default_permissions` is given.
    pub fakeroot: bool,
    /// Whom files are shown to belong to, and with which modes.
    pub shown: Shown,
    /// statfs(2) counts the file system's own blocks, too.
    pub minixdf: bool,
    /// A helper unmounts if the server dies.
    pub auto_unmount: bool,
    /// Nothing can be changed through the mount.
    pub read_only: bool,
    /// Flags of mount(2).
    pub flags: MountFlags,
    /// What mount tables show as the source; the image's path if `None`.
    pub fsname: Option<String>,
    /// What mount tables show after `fuse.`: not for `-o` to say, since mounts are known by it.
    pub subtype: String,
    /// The largest read request in bytes, if it is to be limited.
    pub max_read: Option<u32>,
    /// The kernel collects writes and hands them over later: faster, but what a write returned is durable only after
    /// fsync(2), and has not even reached the volume before.
    pub writeback_cache: bool,
    /// Threads that serve requests; a number that fits the machine if `None`.
    pub max_threads: Option<usize>,
    /// What carries requests.
    pub transport: Transport,
    /// Files are opened and closed by requests: two more for each. Direct writes to one file then need not wait for
    /// each other, and open(2) itself fails where flags of chattr(1) are against it.
    pub open_requests: bool,
}

/// What stat(2) shows in the place of what the image says, of all files. Where the kernel checks permissions, it does
/// so by this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Modes are all bits but these.
    pub umask: Option<u16>,
}

impl Shown {
    pub(crate) fn of(self, attr: &Attr) -> Attr {
        let perm = self.umask.map_or(attr.perm, |umask| 0o777 & !umask);
        Attr { uid: self.uid.unwrap_or(attr.uid), gid: self.gid.unwrap_or(attr.gid), perm, ..*attr }
    }
}

/// What carries requests between the kernel and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// io_uring where kernel and process allow it, else `/dev/fuse`.
    #[default]
    Auto,
    /// `/dev/fuse`.
    Device,
    /// io_uring; to be refused where it is not to be had.
    Rings,
}

impl Transport {
    /// Whether io_uring is to be asked for.
    pub(crate) fn wants_rings(self) -> bool {
        match self {
            Self::Device => false,
            Self::Rings => true,
            Self::Auto => ondol_ring::available().inspect_err(|e| tracing::debug!("no io_uring: {e}")).is_ok(),
        }
    }

    /// Why io_uring cannot be had, if it has to be.
    pub fn refusal(self) -> Option<std::io::Error> {
        use std::io::{Error, ErrorKind};
        if self != Self::Rings {
            return None;
        }
        let off = || {
            let how = "transport=uring: the kernel's FUSE does not offer it: write Y to \
                       /sys/module/fuse/parameters/enable_uring, or leave the option out";
            Error::new(ErrorKind::Unsupported, how)
        };
        ondol_ring::available().err().or_else(|| (!ondol_ring::switched_on()).then(off))
    }
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            allow_other: false,
            allow_root: false,
            default_permissions: false,
            fakeroot: false,
            shown: Shown::default(),
            minixdf: false,
            auto_unmount: false,
            read_only: false,
            flags: MountFlags::NOSUID | MountFlags::NODEV,
            fsname: None,
            subtype: "ondol".into(),
            max_read: None,
            writeback_cache: false,
            max_threads: None,
            transport: Transport::Auto,
            open_requests: false,
        }
    }
}

impl MountOptions {
    /// Takes from a comma-separated list what concerns the mount, drops the words that only fstab and mount(8) care
    /// for, and hands back the others for the volume; some concern both.
    ///
    /// # Errors
    /// A sentence, when a value makes no sense.
    pub fn take(list: &str) -> Result<(Self, String), String> {
        Self::default().with(list)
    }

    /// As [`MountOptions::take`], over these options.
    ///
    /// # Errors
    /// As [`MountOptions::take`].
    pub fn with(self, list: &str) -> Result<(Self, String), String> {
        let mut options = self;
        let mut rest: Vec<&str> = Vec::new();
        for word in list.split(',').filter(|w| !w.is_empty()) {
            if is_fstab_word(word) {
                continue;
            }
            refuse(word)?;
            let taken = options.plain(word) || options.valued(word)?;
            if !taken || FOR_BOTH.contains(&word) {
                rest.push(word);
            }
        }
        Ok((options, rest.join(",")))
    }

    /// The flags that a mount has, all but whether it is read-only.
    pub fn flags_of(entry: &Entry) -> MountFlags {
        let words = ["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "sync", "dirsync"];
        let words: Vec<&str> = words.into_iter().filter(|word| entry.has(word)).collect();
        let mut options = Self { flags: MountFlags::empty(), ..Self::default() };
        for word in words {
            options.plain(word);
        }
        options.flags
    }

    /// An option without a value; `false` if it is none of ours.
    fn plain(&mut self, word: &str) -> bool {
        match word {
            "allow_other" => self.allow_other = true,
            "allow_root" => self.allow_root = true,
            "auto_unmount" => self.auto_unmount = true,
            "default_permissions" => self.default_permissions = true,
            "fakeroot" => self.fakeroot = true,
            "minixdf" => self.minixdf = true,
            "bsddf" => self.minixdf = false,
            "writeback_cache" => self.writeback_cache = true,
            "open_requests" => self.open_requests = true,
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" => self.flags.remove(MountFlags::NOSUID),
            "nosuid" => self.flags.insert(MountFlags::NOSUID),
            "dev" => self.flags.remove(MountFlags::NODEV),
            "nodev" => self.flags.insert(MountFlags::NODEV),
            "exec" => self.flags.remove(MountFlags::NOEXEC),
            "noexec" => self.flags.insert(MountFlags::NOEXEC),
            "diratime" => self.flags.remove(MountFlags::NODIRATIME),
            "nodiratime" => self.flags.insert(MountFlags::NODIRATIME),
            "norelatime" => self.flags.remove(MountFlags::RELATIME),
            // They take back what is refused.
            "nostrictatime" | "nolazytime" => {}
            "sync" => self.flags.insert(MountFlags::SYNCHRONOUS),
            "async" => self.flags.remove(MountFlags::SYNCHRONOUS),
            "dirsync" => self.flags.insert(MountFlags::DIRSYNC),
            "atime" => self.flags.remove(MountFlags::NOATIME),
            "noatime" => self.flags.insert(MountFlags::NOATIME),
            "relatime" => self.flags.insert(MountFlags::RELATIME),
            _ => return false,
        }
        true
    }

    /// An option with a value; `Ok(false)` if it is none of ours.
    fn valued(&mut self, word: &str) -> Result<bool, String> {
        let Some((key, value)) = word.split_once('=') else { return Ok(false) };
        let number = || value.parse::<u32>().ok().filter(|n| *n > 0);
        let wrong = || format!("mount option `{key}={value}`: the value must be a number above 0");
        // The last number stands for nobody at all in system calls.
        let id = || {
            let told = value.parse().ok().filter(|id| *id != u32::MAX);
            told.ok_or_else(|| format!("mount option `{key}={value}`: the value must be a number below {}", u32::MAX))
        };
        let octal = || u16::from_str_radix(value, 8).ok().filter(|bits| *bits <= 0o777);
        match key {
            "uid" => self.shown.uid = Some(id()?),
            "gid" => self.shown.gid = Some(id()?),
            "umask" => {
                let wrong = || format!("mount option `umask={value}`: the value must be an octal number up to 777");
                self.shown.umask = Some(octal().ok_or_else(wrong)?);
            }
            "fsname" => self.fsname = Some(value.into()),
            "max_read" => self.max_read = Some(number().ok_or_else(wrong)?),
            "transport" => {
                self.transport = match value {
                    "auto" => Transport::Auto,
                    "dev" => Transport::Device,
                    "uring" => Transport::Rings,
                    _ => return Err(format!("option transport: `{value}` is none of auto, dev, uring")),
                }
            }
            "max_threads" => self.max_threads = Some(number().ok_or_else(wrong)? as usize),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the kernel checks permissions. Root alone on its own mount passes every check, and under `fakeroot`
    /// everybody; leaving them out saves a request for the directory's attributes with every change of its names.
    pub(crate) fn kernel_checks(&self) -> bool {
        let root_alone = rustix::process::geteuid().is_root() && !self.allow_other && !self.allow_root;
        self.default_permissions || !(root_alone || self.fakeroot)
    }

    /// Whether files are opened by requests. With the writeback cache a write does not say whether its descriptor
    /// appends, which append-only files depend on. Where nothing can be changed, there is nothing to ask.
    pub(crate) fn opens(&self) -> bool {
        (self.open_requests || self.writeback_cache) && !self.read_only
    }

    /// Flags of mount(2).
    pub(crate) fn mount_flags(&self) -> MountFlags {
        let mut flags = self.flags;
        flags.set(MountFlags::RDONLY, self.read_only);
        if self.fakeroot {
            // Anybody could make set-uid programs and devices.
            flags.insert(MountFlags::NOSUID | MountFlags::NODEV);
        }
        flags
    }

    /// The options that both mount(2)'s data and the helper's `-o` know.
    pub(crate) fn fuse_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.kernel_checks() {
            words.push("default_permissions".into());
        }
        if self.allow_other || self.allow_root {
            words.push("allow_other".into());
        }
        if let Some(bytes) = self.max_read {
            words.push(format!("max_read={bytes}"));
        }
        words
    }

    /// The options that the helper takes as words and mount(2) as flags.
    pub(crate) fn flag_words(&self) -> Vec<&'static str> {
        let flags = self.mount_flags();
        let choose = |flag, set, unset| if flags.contains(flag) { set } else { unset };
        let mut words = vec![
            choose(MountFlags::RDONLY, "ro", "rw"),
            choose(MountFlags::NOSUID, "nosuid", "suid"),
            choose(MountFlags::NODEV, "nodev", "dev"),
            choose(MountFlags::NOEXEC, "noexec", "exec"),
            choose(MountFlags::NOATIME, "noatime", "atime"),
            choose(MountFlags::SYNCHRONOUS, "sync", "async"),
        ];
        if flags.contains(MountFlags::DIRSYNC) {
            words.push("dirsync");
        }
        words
    }
}

/// The names of all options that concern the mount, for those who look for the one that was meant; `=` follows a name
/// that takes a value.
pub const OPTION_NAMES: [&str; 35] = [
    "ro",
    "rw",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "nostrictatime",
    "nolazytime",
    "sync",
    "async",
    "dirsync",
    "atime",
    "noatime",
    "allow_other",
    "allow_root",
    "default_permissions",
    "fakeroot",
    "minixdf",
    "bsddf",
    "auto_unmount",
    "writeback_cache",
    "open_requests",
    "uid=",
    "gid=",
    "umask=",
    "fsname=",
    "max_read=",
    "max_threads=",
    "transport=",
];

/// Refuses words of mount(8) that the kernel's FUSE does not let a server keep.
fn refuse(word: &str) -> Result<(), String> {
    let why = match word {
        "strictatime" => "reads from the kernel's page cache never reach the server; use `relatime` or `noatime`",
        "lazytime" => "times are journaled with what they are of, and cost nothing more; leave it out",
        _ => return Ok(()),
    };
    Err(format!("option {word} is not possible through FUSE: {why}"))
}

/// Words that mean something to the kernel's mount and to the volume.
const FOR_BOTH: [&str; 7] = ["ro", "rw", "atime", "noatime", "relatime", "diratime", "nodiratime"];

/// Words that mount(8), fstab(5) and systemd use and hand to file systems all the same.
fn is_fstab_word(word: &str) -> bool {
    const WORDS: [&str; 15] = [
        "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "noowner", "group", "nogroup", "nofail",
        "fail", "_netdev", "silent", "loud",
    ];
    const BEGINNINGS: [&str; 6] = ["x-", "X-", "comment=", "user=", "uhelper=", "helper="];
    WORDS.contains(&word) || BEGINNINGS.iter().any(|b| word.starts_with(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_where_they_belong() {
        let (options, rest) =
            MountOptions::take("defaults,noauto,x-systemd.automount,data=journal,allow_other,fsname=a,dev,commit=5,ro")
                .unwrap();
        assert_eq!(rest, "data=journal,commit=5,ro");
        assert!(options.allow_other && options.read_only);
        assert_eq!(options.fsname.as_deref(), Some("a"));
        assert_eq!(options.flags, MountFlags::NOSUID);
    }

    #[test]
    fn the_last_of_ro_and_rw_counts() {
        let (options, rest) = MountOptions::take("ro,rw").unwrap();
        assert!(!options.read_only);
        assert_eq!(rest, "ro,rw");
    }

    #[test]
    fn access_times_are_the_volumes_too() {
        let list = "noatime,relatime,nodiratime,diratime";
        assert_eq!(MountOptions::take(list).unwrap().1, list);
        assert!(MountOptions::take("nodiratime").unwrap().0.flags.contains(MountFlags::NODIRATIME));
    }

    #[test]
    fn times_that_no_server_could_keep_are_refused_by_name() {
        for word in ["strictatime", "lazytime"] {
            let said = MountOptions::take(&format!("rw,{word}")).unwrap_err();
            assert!(said.contains(&format!("option {word} ")), "{said}");
            assert_eq!(MountOptions::take(&format!("no{word}")).unwrap(), (MountOptions::default(), String::new()));
        }
    }

    #[test]
    fn words_of_fstab_are_dropped() {
        let list =
            "defaults,noauto,user,user=ann,nofail,_netdev,x-a.b=c,X-d,comment=e,uhelper=f,helper=g,owner,group,users";
        let (options, rest) = MountOptions::take(list).unwrap();
        assert_eq!((options, &*rest), (MountOptions::default(), ""));
    }

    #[test]
    fn every_name_is_taken() {
        for name in OPTION_NAMES {
            let value = if name == "transport=" { "dev" } else { "1" };
            let word = if name.ends_with('=') { format!("{name}{value}") } else { name.to_owned() };
            let rest = MountOptions::take(&word).unwrap().1;
            assert!(rest.is_empty() || FOR_BOTH.contains(&name), "{name}");
        }
    }

    #[test]
    fn values_are_checked() {
        assert!(MountOptions::take("max_read=0").unwrap_err().contains("max_read"));
        assert!(MountOptions::take("max_threads=x").is_err());
        for list in ["uid=", "uid=4294967295", "uid=ann", "gid=-1", "umask=8", "umask=1000", "umask="] {
            assert!(MountOptions::take(list).is_err(), "{list}");
        }
        let shown = MountOptions::take("uid=0,gid=1000,umask=027").unwrap().0.shown;
        assert_eq!(shown, Shown { uid: Some(0), gid: Some(1000), umask: Some(0o27) });
    }

    #[test]
    fn unknown_words_are_left_to_the_volume() {
        assert_eq!(MountOptions::take("bogus,k=v").unwrap().1, "bogus,k=v");
    }
}
