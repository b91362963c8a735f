//! Programs and test suites of others, run on a mount: each is a shell script in `programs/` that says in its head what
//! it needs. `cargo xtask programs` runs them; a few of them are short enough to be tests.

mod result;
mod run;
mod script;

pub use result::{Outcome, Report, table};
pub use run::{Setting, run};
pub use script::{Program, all, named};

use std::fmt;
use std::str::FromStr;

/// What a program runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A mount by Ondol with this data mode; or with engine `compressed`, in `data=journal` or, as
    /// `compressed-ordered`, the other.
    Ondol(String),
    /// A mount by Ondol of a volume in object storage, which is a directory of this machine.
    Bucket,
    /// A mount by Ondol with engine `scalable` and a pool in front of the image.
    Scalable,
    /// A mount by Ondol of the image in a pool, with engine `remap`.
    Remap,
    /// A loop mount by the kernel's ext4 with its defaults.
    Kernel,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ondol(data) => write!(f, "{data}"),
            Self::Bucket => write!(f, "bucket"),
            Self::Scalable => write!(f, "scalable"),
            Self::Remap => write!(f, "remap"),
            Self::Kernel => write!(f, "kernel"),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "kernel" => Ok(Self::Kernel),
            "bucket" => Ok(Self::Bucket),
            "scalable" => Ok(Self::Scalable),
            "remap" => Ok(Self::Remap),
            "journal" | "ordered" | "writeback" | "compressed" | "compressed-ordered" => {
                Ok(Self::Ondol(word.to_owned()))
            }
            _ => Err(format!(
                "{word}: not one of journal, ordered, writeback, compressed, compressed-ordered, scalable, remap, \
                 bucket, kernel"
            )),
        }
    }
}
