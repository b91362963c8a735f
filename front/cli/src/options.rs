//! What `-o` says, by whom it concerns: the mount, the volume, or this program.

mod others;

use crate::failure::{Failure, MOUNT_USAGE};
use crate::log;
use crate::metrics::Outlet;
use ondol::{OptionError, Options, Part, parse_size};
use ondol_fuse::MountOptions;
use std::path::{Path, PathBuf};

/// The names of the options that this program takes itself.
const OWN_NAMES: [&str; 6] = ["log=", "log_level=", "metrics=", "offset=", "sizelimit=", "partition="];

/// Options of a mount.
#[derive(Debug)]
pub(crate) struct Wishes {
    /// What FUSE and the kernel are to do.
    pub(crate) mount: MountOptions,
    /// How the volume is opened.
    pub(crate) volume: Options,
    /// Where messages of a server in the background go.
    pub(crate) log: Option<PathBuf>,
    /// How many messages there are.
    pub(crate) log_level: Option<String>,
    /// Where metrics are to be had.
    pub(crate) metrics: Option<Outlet>,
    /// These three, as they were written.
    pub(crate) own: Vec<String>,
    /// Which part of the file or device is the image.
    pub(crate) part: Option<Part>,
}

impl Wishes {
    /// Reads comma-separated lists. `sloppy` passes over options that nobody knows, as `mount -s` asks for.
    ///
    /// # Errors
    /// Unknown options with the nearest known one, and values that make no sense.
    pub(crate) fn read(lists: &[String], sloppy: bool) -> Result<Self, Failure> {
        Self::read_over(MountOptions::default(), lists, sloppy)
    }

    /// The same, where what is not named is as in `now`.
    ///
    /// # Errors
    /// As [`Wishes::read`].
    pub(crate) fn read_over(now: MountOptions, lists: &[String], sloppy: bool) -> Result<Self, Failure> {
        let lists = lists.join(",");
        let lists = others::without(&lists).map_err(Failure::with(MOUNT_USAGE))?.join(",");
        let (mount, rest) = now.with(&lists).map_err(Failure::with(MOUNT_USAGE))?;
        let wrong = Failure::with::<String>;
        let mut rest: Vec<&str> = rest.split(',').collect();
        let mut own = Vec::new();
        let mut take = |name: &str| {
            let word = rest.iter().rev().find(|word| word.starts_with(name)).map(|word| (*word).to_owned());
            rest.retain(|word| !word.starts_with(name));
            own.extend(word.clone());
            word.and_then(|word| word.strip_prefix(name).map(str::to_owned))
        };
        let log = take("log=").map(PathBuf::from);
        let log_level = take("log_level=").map(|text| log::level(&text)).transpose().map_err(wrong(MOUNT_USAGE))?;
        let metrics = take("metrics=").map(|text| Outlet::parse(&text)).transpose().map_err(wrong(MOUNT_USAGE))?;
        let (part, rest) = take_part(rest).map_err(Failure::with(MOUNT_USAGE))?;
        let known = |word: &&&str| !sloppy || !matches!(Options::parse(word), Err(OptionError::Unknown(_)));
        let rest: Vec<&str> = rest.iter().filter(known).copied().collect();
        let volume = Options::parse(&rest.join(",")).map_err(|e| Failure::new(MOUNT_USAGE, explained(&e)))?;
        Ok(Self { mount, volume, log, log_level, metrics, own, part })
    }
}

/// How a volume is opened that nobody mounts, and which part of a file or device it is: of the options of a mount those
/// that concern the volume.
///
/// # Errors
/// As [`Wishes::read`], with this exit code.
pub(crate) fn volume_options(lists: &[String], code: u8) -> Result<(Options, Option<Part>), Failure> {
    let joined = lists.join(",");
    let words = others::without(&joined).map_err(Failure::with(code))?;
    let (part, rest) = take_part(words).map_err(Failure::with(code))?;
    let volume = Options::parse(&rest.join(",")).map_err(|e| Failure::new(code, explained(&e)))?;
    Ok((volume, part))
}

/// Takes out what says which part of a file or device is the image.
fn take_part(words: Vec<&str>) -> Result<(Option<Part>, Vec<&str>), String> {
    let (mut offset, mut size, mut partition, mut rest) = (None, None, None, Vec::new());
    let bytes =
        |text: &str| parse_size(text).ok_or_else(|| format!("`{text}` is not a number of bytes, as in 1048576 or 1M"));
    for word in words {
        match word.split_once('=') {
            Some(("offset", value)) => offset = Some(bytes(value)?),
            Some(("sizelimit", value)) => size = Some(bytes(value)?),
            Some(("partition", value)) => partition = Some(partition_number(value)?),
            _ => rest.push(word),
        }
    }
    let part = match (partition, offset, size) {
        (None, None, None) => None,
        (Some(number), None, None) => Some(Part::Partition(number)),
        (Some(_), ..) => return Err("`partition=` goes with neither `offset=` nor `sizelimit=`".into()),
        (None, offset, size) => Some(Part::Bytes { offset: offset.unwrap_or(0), size }),
    };
    Ok((part, rest))
}

/// Reads the number of a partition.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn partition_number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number: &u32| *number > 0 && !text.starts_with('+'));
    number.ok_or_else(|| format!("`{text}` is no number of a partition: they count from 1"))
}

/// The target of an image that is a part of a file or device: by a mount option, or `--partition`.
///
/// # Errors
/// Both say something, or the target itself does, or the image lies in a pool.
pub(crate) fn located(target: &Path, by_option: Option<Part>, partition: Option<u32>) -> Result<PathBuf, String> {
    let part = match (by_option, partition.map(Part::Partition)) {
        (None, None) => return Ok(target.to_owned()),
        (Some(part), None) | (None, Some(part)) => part,
        (Some(_), Some(_)) => {
            return Err("--partition goes with none of `offset=`, `sizelimit=` and `partition=`".into());
        }
    };
    if ondol::is_in_bucket(target) {
        return Err("volumes in object storage have no parts".into());
    }
    if ondol::pool_of(target).is_some() || ondol::part_of(target).is_some() {
        return Err(format!("{} names a part already, or an image in a pool, which has none", target.display()));
    }
    Ok(part.target(target))
}

fn explained(e: &OptionError) -> String {
    let nearest = match e {
        OptionError::Unknown(word) => nearest(word),
        _ => None,
    };
    match nearest {
        Some(name) => format!("{e}; did you mean `{name}`?"),
        None if matches!(e, OptionError::Unknown(_)) => format!("{e}: `ondol mount --help` lists them"),
        None => e.to_string(),
    }
}

/// The known option whose name is most like that of `word`, if one is like it.
fn nearest(word: &str) -> Option<&'static str> {
    let (name, valued) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let of_buckets = ondol::BUCKET_OPTION_NAMES.iter().filter(|_| ondol::HAS_BUCKETS);
    let all = ondol::OPTION_NAMES.iter().chain(&ondol_fuse::OPTION_NAMES).chain(&OWN_NAMES).chain(of_buckets);
    let all = all.copied().chain(others::names());
    let distance = |known: &str| strsim::damerau_levenshtein(name, known.trim_end_matches('='));
    // Of equally near ones the one that takes a value if one was given.
    let best = all.min_by_key(|known| (distance(known), known.ends_with('=') != valued))?;
    (distance(best) <= 1 + name.len() / 4).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &str) -> String {
        Wishes::read(&[list.to_owned()], false).unwrap_err().message
    }

    #[test]
    fn the_nearest_option_is_named() {
        assert!(refused("journl=classic").contains("did you mean `journal=`?"));
        assert!(refused("alow_other").contains("did you mean `allow_other`?"));
        assert!(refused("norecover").contains("did you mean `norecovery`?"));
        assert!(refused("lgo=/x").contains("did you mean `log=`?"));
        assert!(refused("nodelaloc").contains("did you mean `nodelalloc`?"));
        assert!(refused("strip=8").contains("did you mean `stripe=`?"));
        assert!(refused("umsk=022").contains("did you mean `umask=`?"));
        assert_eq!(refused("sparkle"), "unknown mount option `sparkle`: `ondol mount --help` lists them");
        assert!(!refused("data=fast").contains("did you mean"));
    }

    #[test]
    fn a_part_is_named_once() {
        let part = |list: &str| Wishes::read(&[list.to_owned()], false).unwrap().part;
        assert_eq!(part("ro"), None);
        assert_eq!(part("partition=3,ro"), Some(Part::Partition(3)));
        assert_eq!(part("offset=1M,sizelimit=2M"), Some(Part::Bytes { offset: 1 << 20, size: Some(2 << 20) }));
        assert_eq!(part("offset=512"), Some(Part::Bytes { offset: 512, size: None }));
        for (list, said) in [
            ("partition=0", "count from 1"),
            ("partition=+1", "count from 1"),
            ("offset=x", "not a number of bytes"),
            ("partition=1,offset=512", "neither `offset=` nor"),
        ] {
            assert!(refused(list).contains(said), "{list}: {}", refused(list));
        }
        let disk = Path::new("/no/disk.img");
        assert_eq!(located(disk, None, None).unwrap(), disk);
        assert_eq!(located(disk, None, Some(2)).unwrap(), Path::new("/no/disk.img?partition=2"));
        assert!(located(disk, Some(Part::Partition(1)), Some(1)).is_err());
        assert!(located(Path::new("/no/disk.img?partition=2"), None, Some(2)).is_err());
        assert!(located(Path::new("nvm:/no/pool"), None, Some(2)).is_err());
    }

    #[test]
    fn sloppy_passes_over_what_is_unknown_only() {
        let read = |list: &str| Wishes::read(&[list.to_owned()], true);
        assert!(read("sparkle,ro,k=v").unwrap().volume.read_only());
        assert!(read("data=fast").is_err() && read("max_read=x").is_err());
    }
}
