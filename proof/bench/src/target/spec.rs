//! Names of targets as they are written on the command line.

use crate::BenchError;
use crate::units::parse_size;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A target, as written and as understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// As it was written.
    pub(crate) text: String,
    /// What it means.
    pub(crate) kind: Kind,
}

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory that exists.
    Dir(PathBuf),
    /// An image through the library.
    Lib(Image),
    /// An image mounted by our own FUSE server.
    Fuse(Image),
    /// A fresh image mounted by the kernel.
    Kernel(KernelFs, Fresh),
    /// A fresh image mounted by fuse2fs.
    Fuse2fs(Fresh),
    /// A fresh image through another crate.
    Crate(Fresh),
    /// Memory.
    Tmpfs,
    /// A server of nothing, with its mount options.
    Null(String),
    /// A directory, handed on.
    Passthrough(Through),
}

/// A directory that is handed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Through {
    /// In which a fresh one is made; `None`: in memory.
    pub(crate) below: Option<PathBuf>,
    /// Mount options, comma-separated.
    pub(crate) options: String,
}

/// The crate that has a file system in it, as registries have it.
pub(crate) const CRATE: &str = "rust-fs-ext4";

/// A kernel file system that can be made and mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelFs {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl KernelFs {
    /// The type that mount takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

/// An image by name: it may exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Where it is, or shall be.
    pub(crate) path: PathBuf,
    /// Its size in bytes if it has to be made; `None`: what fits the workload.
    pub(crate) size: Option<u64>,
    /// What it lies on: then it is made, with `path` as its name.
    pub(crate) on: Option<On>,
    /// Bytes of the NVM pool in memory that is made for it, if one is.
    pub(crate) pool: Option<u64>,
    /// One lock is taken around each call to it.
    pub(crate) one_lock: bool,
    /// Mount options, comma-separated.
    pub(crate) options: String,
}

/// An image that is always made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// Its size in bytes; `None`: what fits the workload.
    pub(crate) size: Option<u64>,
    /// What it lies on; `None`: the directory for images.
    pub(crate) on: Option<On>,
    /// Features for `mke2fs -O`.
    pub(crate) features: Vec<String>,
    /// Mount options, comma-separated.
    pub(crate) options: String,
}

/// What an image lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    /// Memory.
    Ram,
    /// A disk.
    Disk,
    /// Memory behind a modelled solid-state disk.
    Ssd,
    /// Memory behind a modelled hard disk.
    Hdd,
}

impl Target {}

impl FromStr for Target {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let kind = parse(text).map_err(|why| BenchError::Usage(format!("target {}: {why}", shown(text))))?;
        Ok(Self { text: text.to_owned(), kind })
    }
}

/// A target as it is repeated in messages: what names a volume in object storage may have a password in it.
fn shown(text: &str) -> &str {
    match text.split_once(':') {
        Some((front_end, rest)) if ondol::is_in_bucket(Path::new(rest)) => front_end,
        _ => text,
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    if let Some(path) = text.strip_prefix("dir:") {
        return if path.is_empty() { Err("names no directory".into()) } else { Ok(Kind::Dir(path.into())) };
    }
    if let Some(rest) = text.strip_prefix("lib:") {
        return image(rest).map(Kind::Lib);
    }
    if let Some(rest) = text.strip_prefix("fuse:") {
        let image = image(rest)?;
        return if image.one_lock { Err("journal=fg is for lib: only".into()) } else { Ok(Kind::Fuse(image)) };
    }
    let (name, options) = text.split_once(',').unwrap_or((text, ""));
    match name {
        "kernel:ext4" => Ok(Kind::Kernel(KernelFs::Ext4, fresh(options, true)?)),
        "kernel:xfs" => Ok(Kind::Kernel(KernelFs::Xfs, fresh(options, false)?)),
        "kernel:btrfs" => Ok(Kind::Kernel(KernelFs::Btrfs, fresh(options, false)?)),
        "fuse2fs" => Ok(Kind::Fuse2fs(fresh(options, true)?)),
        "tmpfs" if text == name => Ok(Kind::Tmpfs),
        "tmpfs" => Err("takes no options".into()),
        "null" => floor_options(options).map(Kind::Null),
        "passthrough" => Ok(Kind::Passthrough(Through { below: None, options: floor_options(options)? })),
        _ if name.starts_with("passthrough:") => match name.strip_prefix("passthrough:") {
            None | Some("") => Err("names no directory".into()),
            Some(below) => {
                Ok(Kind::Passthrough(Through { below: Some(below.into()), options: floor_options(options)? }))
            }
        },
        _ => match (name.strip_prefix("kernel:"), name.strip_prefix("crate:")) {
            (Some(fs), _) => Err(format!("kernel file system '{fs}' is unknown; ext4, xfs and btrfs are known")),
            (None, Some(name)) => other_crate(name, options),
            (None, None) => Err("unknown; `ondol bench list` names the targets".into()),
        },
    }
}

fn image(text: &str) -> Result<Image, String> {
    let (path, options) = text.split_once(',').unwrap_or((text, ""));
    if path.is_empty() {
        return Err("names no image".into());
    }
    let mut image =
        Image { path: path.into(), size: None, on: None, pool: None, one_lock: false, options: String::new() };
    let mut passed_on = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("size", value)) => image.size = Some(size(value)?),
            Some(("pool", value)) => image.pool = Some(size(value)?),
            Some(("on", value)) => image.on = Some(on(value)?),
            Some(("journal", "fg")) => image.one_lock = true,
            _ => passed_on.push(option),
        }
    }
    require_fitting(&image)?;
    if image.one_lock && image.pool.is_none() {
        return Err("journal=fg needs pool=SIZE".into());
    }
    if image.on.is_some() && image.path.components().count() != 1 {
        return Err("on= is for an image that the bench makes: name it without a directory".into());
    }
    image.options = passed_on.join(",");
    Ok(image)
}

/// Refuses what makes no sense in object storage.
fn require_fitting(image: &Image) -> Result<(), String> {
    if !ondol::is_in_bucket(&image.path) {
        return Ok(());
    }
    if image.path.as_os_str().as_encoded_bytes().contains(&b'?') {
        return Err("a volume of its own is made below it, so nothing may stand behind a question mark".into());
    }
    let wrong = [(image.on.is_some(), "on="), (image.one_lock, "journal=fg")].into_iter().find(|(is, _)| *is);
    wrong.map_or(Ok(()), |(_, word)| Err(format!("{word} is for images")))
}

fn other_crate(name: &str, options: &str) -> Result<Kind, String> {
    if name != CRATE {
        return Err(format!("crate '{name}' is unknown; {CRATE} is known"));
    }
    let fresh = fresh(options, true)?;
    match fresh.options.as_str() {
        "" => Ok(Kind::Crate(fresh)),
        options => Err(format!("takes no mount options, of which `{options}` would be one")),
    }
}

fn fresh(options: &str, has_features: bool) -> Result<Fresh, String> {
    let mut fresh = Fresh::default();
    let mut passed_on = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("size", value)) => fresh.size = Some(size(value)?),
            Some(("on", value)) => fresh.on = Some(on(value)?),
            Some(("feature", value)) if has_features => fresh.features.push(value.to_owned()),
            Some(("feature", _)) => return Err("feature= is for ext4 only".into()),
            _ => passed_on.push(option),
        }
    }
    fresh.options = passed_on.join(",");
    Ok(fresh)
}

fn floor_options(list: &str) -> Result<String, String> {
    crate::serve::options_of(list)?;
    Ok(list.to_owned())
}

fn on(text: &str) -> Result<On, String> {
    match text {
        "ram" => Ok(On::Ram),
        "disk" => Ok(On::Disk),
        "ssd" => Ok(On::Ssd),
        "hdd" => Ok(On::Hdd),
        _ => Err(format!("on={text}: ram, disk, ssd or hdd")),
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).filter(|&bytes| bytes > 0).ok_or_else(|| format!("size={text}: not a size such as 512M or 2G"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::GIB;

    fn kind(text: &str) -> Kind {
        text.parse::<Target>().expect(text).kind
    }

    fn refusal(text: &str) -> String {
        text.parse::<Target>().expect_err(text).to_string()
    }

    #[test]
    fn every_kind_is_understood() {
        assert_eq!(kind("dir:/a,b"), Kind::Dir("/a,b".into()));
        assert_eq!(kind("tmpfs"), Kind::Tmpfs);
        assert_eq!(kind("null"), Kind::Null(String::new()));
        assert_eq!(kind("null,transport=dev"), Kind::Null("transport=dev".into()));
        assert_eq!(kind("passthrough"), Kind::Passthrough(Through::default()));
        let through = Through { below: Some("/var/tmp".into()), options: "max_threads=2".into() };
        assert_eq!(kind("passthrough:/var/tmp,max_threads=2"), Kind::Passthrough(through));
        assert_eq!(kind("fuse2fs"), Kind::Fuse2fs(Fresh::default()));
        let image = Image {
            path: "/x.img".into(),
            size: Some(2 * GIB),
            on: None,
            pool: None,
            one_lock: false,
            options: "data=journal,commit=1".into(),
        };
        assert_eq!(kind("lib:/x.img,data=journal,size=2G,commit=1"), Kind::Lib(image.clone()));
        assert_eq!(kind("fuse:/x.img,size=2G,data=journal,commit=1"), Kind::Fuse(image));
        let image = Image {
            path: "x.img".into(),
            size: None,
            on: Some(On::Hdd),
            pool: Some(GIB),
            one_lock: false,
            options: "data=journal".into(),
        };
        assert_eq!(kind("lib:x.img,on=hdd,data=journal,pool=1G"), Kind::Lib(image.clone()));
        let image = Image { one_lock: true, ..image };
        assert_eq!(kind("lib:x.img,on=hdd,data=journal,pool=1G,journal=fg"), Kind::Lib(image));
        let fresh = Fresh { on: Some(On::Ssd), ..Fresh::default() };
        assert_eq!(kind("kernel:ext4,on=ssd"), Kind::Kernel(KernelFs::Ext4, fresh));
        let fresh = Fresh { on: Some(On::Disk), options: "data=journal,noatime".into(), ..Fresh::default() };
        assert_eq!(kind("kernel:ext4,data=journal,on=disk,noatime"), Kind::Kernel(KernelFs::Ext4, fresh));
        let fresh = Fresh { on: Some(On::Ssd), features: vec!["^has_journal".into()], ..Fresh::default() };
        assert_eq!(kind("crate:rust-fs-ext4,on=ssd,feature=^has_journal"), Kind::Crate(fresh));
        assert_eq!(kind("crate:rust-fs-ext4"), Kind::Crate(Fresh::default()));
        assert_eq!(kind("kernel:btrfs"), Kind::Kernel(KernelFs::Btrfs, Fresh::default()));
        let fresh = Fresh { features: vec!["fast_commit".into()], on: Some(On::Ram), ..Fresh::default() };
        assert_eq!(kind("kernel:ext4,feature=fast_commit,on=ram"), Kind::Kernel(KernelFs::Ext4, fresh));
    }

    #[test]
    fn volumes_in_object_storage_are_named_as_elsewhere() {
        let image = Image {
            path: "s3://bucket/pre/fix".into(),
            size: Some(GIB),
            on: None,
            pool: None,
            one_lock: false,
            options: "cache=64M".into(),
        };
        assert_eq!(kind("fuse:s3://bucket/pre/fix,size=1G,cache=64M"), Kind::Fuse(image.clone()));
        assert_eq!(kind("lib:s3://bucket/pre/fix,size=1G,cache=64M"), Kind::Lib(image));
        for (text, part) in [
            ("lib:file:///d?snapshot=x", "question mark"),
            ("lib:file:///d,on=ssd", "on= is for images"),
            ("lib:s3://b/p,journal=fg,pool=1G", "journal=fg is for images"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
        let secret = refusal("lib:s3://user:word@bucket/x,on=ram");
        assert!(!secret.contains("word") && secret.contains("on="), "{secret}");
    }

    #[test]
    fn the_text_is_kept() {
        assert_eq!("kernel:xfs,size=1G".parse::<Target>().expect("target").text, "kernel:xfs,size=1G");
    }

    #[test]
    fn what_is_unknown_is_refused_by_name() {
        for (text, part) in [
            ("kernel:zfs,size=1G", "'zfs' is unknown"),
            ("crate:ext4", "crate 'ext4' is unknown; rust-fs-ext4 is known"),
            ("crate:rust-fs-ext4,data=journal", "no mount options, of which `data=journal`"),
            ("nfs:/x", "target nfs:/x: unknown"),
            ("kernel:ext4,on=tape", "on=tape"),
            ("kernel:xfs,feature=x", "ext4 only"),
            ("fuse2fs,size=much", "size=much"),
            ("lib:x,size=0", "size=0"),
            ("lib:/d/x,on=ssd", "without a directory"),
            ("lib:", "names no image"),
            ("lib:x,pool=much", "size=much"),
            ("lib:x,journal=fg", "needs pool=SIZE"),
            ("fuse:x,pool=1G,journal=fg", "lib: only"),
            ("dir:", "names no directory"),
            ("tmpfs,size=1G", "takes no options"),
            ("null,data=journal", "`data=journal` is no option of a mount without a volume"),
            ("null,transport=tape", "none of auto, dev, uring"),
            ("passthrough:", "names no directory"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}
