//! What `-o` says, by whom it concerns: the mount, the volume, or this program.

use crate::failure::{Failure, MOUNT_USAGE};
use ondol::{OptionError, Options};
use ondol_fuse::MountOptions;
use std::path::PathBuf;

/// The names of the options that this program takes itself.
const OWN_NAMES: [&str; 1] = ["log="];

/// Options of a mount.
#[derive(Debug)]
pub(crate) struct Wishes {
    /// What FUSE and the kernel are to do.
    pub(crate) mount: MountOptions,
    /// How the volume is opened.
    pub(crate) volume: Options,
    /// Where messages of a server in the background go.
    pub(crate) log: Option<PathBuf>,
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
        let (mount, rest) = now.with(&lists.join(",")).map_err(Failure::with(MOUNT_USAGE))?;
        let (log, rest): (Vec<&str>, Vec<&str>) = rest.split(',').partition(|w| w.starts_with("log="));
        let known = |word: &&&str| !sloppy || !matches!(Options::parse(word), Err(OptionError::Unknown(_)));
        let rest: Vec<&str> = rest.iter().filter(known).copied().collect();
        let volume = Options::parse(&rest.join(",")).map_err(|e| Failure::new(MOUNT_USAGE, explained(&e)))?;
        let log = log.last().and_then(|w| w.strip_prefix("log=")).map(PathBuf::from);
        Ok(Self { mount, volume, log })
    }
}

fn explained(e: &OptionError) -> String {
    let nearest = match e {
        OptionError::Unknown(word) => nearest(word),
        _ => None,
    };
    match nearest {
        Some(name) => format!("{e}; did you mean `{name}`?"),
        None => e.to_string(),
    }
}

/// The known option whose name is most like that of `word`, if one is like it.
fn nearest(word: &str) -> Option<&'static str> {
    let (name, valued) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let all = ondol::OPTION_NAMES.iter().chain(&ondol_fuse::OPTION_NAMES).chain(&OWN_NAMES);
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
        assert_eq!(refused("sparkle"), "unknown mount option `sparkle`");
        assert!(!refused("data=fast").contains("did you mean"));
    }

    #[test]
    fn sloppy_passes_over_what_is_unknown_only() {
        let read = |list: &str| Wishes::read(&[list.to_owned()], true);
        assert!(read("sparkle,ro,k=v").unwrap().volume.read_only());
        assert!(read("data=fast").is_err() && read("max_read=x").is_err());
    }
}
