//! Faults that are put into Ondol on purpose: what the crash laboratory must find to be believed.
//!
//! Each breaks one rule of persistence, and is a patch in this folder, whose first line says where it is and what it
//! does. `cargo xtask proof` builds a copy of Ondol with all of them; there a thread breaks one rule with [`set`]. In
//! any other build there is nothing to break, and the names are all that there is.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

/// Whether this build has the faults in it.
pub const AVAILABLE: bool = cfg!(patched);

/// What a defect is planted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The volume, or what all block engines share: it shows in each of them.
    All,
    /// Engine `classic`.
    Classic,
    /// Engine `compressed`.
    Compressed,
    /// Engine `scalable`.
    Scalable,
    /// Engine `swap`.
    Swap,
    /// `remap` alone.
    Remap,
    /// Engine `batch`.
    Batch,
    /// Volumes in object storage.
    Store,
    /// The local log of these.
    Redo,
    /// The order of their objects, who may open them, and who has lost them.
    Home,
    /// NVM pools.
    Pool,
    /// The NVM write buffer.
    Buffer,
    /// The NVM log.
    Log,
    /// The page table.
    Table,
    /// The log of `ondol run`.
    Run,
    /// A change of a volume's size.
    Resize,
    /// What else changes an image that nobody has mounted.
    Tools,
}

macro_rules! defects {
    ($($variant:ident $name:literal $subject:ident $what:literal,)*) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Defect {
            $(#[doc = $what] $variant,)*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name, in small letters with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Where it is.
            pub fn subject(self) -> Subject {
                match self {
                    $(Self::$variant => Subject::$subject,)*
                }
            }

            /// What is done wrong, in one line.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$variant => $what,)*
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/list.rs"));

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Classic => "classic",
            Self::Compressed => "compressed",
            Self::Scalable => "scalable",
            Self::Swap => "swap",
            Self::Remap => "remap",
            Self::Pool => "pool",
            Self::Buffer => "buffer",
            Self::Log => "log",
            Self::Table => "table",
            Self::Run => "run",
            Self::Batch => "batch",
            Self::Resize => "resize",
            Self::Tools => "tools",
            Self::Store => "store",
            Self::Redo => "redo",
            Self::Home => "home",
        })
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no planted defect of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(
    /// The name.
    pub String,
);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Defect::ALL.iter().map(|d| d.name()).collect();
        write!(f, "no planted defect: {} (there are {})", self.0, known.join(", "))
    }
}

impl std::error::Error for Unknown {}

impl FromStr for Defect {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        let found = Self::ALL.iter().find(|d| d.name() == name);
        found.copied().ok_or_else(|| Unknown(name.to_owned()))
    }
}

/// This build has no faults in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this build has no faults in it; `cargo xtask lab crash --plant DEFECT` has them")
    }
}

impl std::error::Error for Unavailable {}

/// The variable of the environment that names the rule which all threads of a process break that break no other.
pub const EVERYWHERE: &str = "ONDOL_PLANTED";

#[cfg(patched)]
pub use ondol_env::fault::Guard;

/// See [`set`].
#[cfg(not(patched))]
#[derive(Debug)]
#[must_use = "the rule holds again when the guard is dropped"]
pub struct Guard;

/// The rule that this thread breaks: to be handed on to threads that work for it.
pub fn current() -> Option<Defect> {
    #[cfg(patched)]
    return ondol_env::fault::current().and_then(|name| name.parse().ok());
    #[cfg(not(patched))]
    None
}

/// Breaks a rule (or none) on this thread until the guard is dropped, which brings back what was before.
///
/// # Errors
/// `Unavailable` in a build without the faults, for anything but `None`.
pub fn set(defect: Option<Defect>) -> Result<Guard, Unavailable> {
    #[cfg(patched)]
    return Ok(ondol_env::fault::set(defect.map(Defect::name)));
    #[cfg(not(patched))]
    defect.map_or(Ok(Guard), |_| Err(Unavailable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_has_a_name_of_its_own() {
        for defect in Defect::ALL {
            assert_eq!(defect.to_string().parse(), Ok(*defect));
            assert!(defect.what().ends_with('.'));
        }
        assert!("no-such-thing".parse::<Defect>().is_err());
    }

    #[test]
    fn a_defect_is_planted_where_it_can_be_and_only_for_as_long_as_its_guard_lives() {
        assert_eq!(current(), None);
        let guard = set(Some(Defect::StaleRing));
        assert_eq!((guard.is_ok(), current()), (AVAILABLE, Some(Defect::StaleRing).filter(|_| AVAILABLE)));
        drop(guard);
        assert!(current().is_none() && set(None).is_ok());
    }
}
