//! What a store has to reach to survive a power cut, and what that means for the user.

use ondol_power::Kind;
use std::fmt;
use std::str::FromStr;

/// The persistence domain: what of the machine keeps its contents when power fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Find it out.
    #[default]
    Auto,
    /// The memory controller: lines are written back and fenced.
    Adr,
    /// The caches too: a fence suffices.
    Eadr,
    /// CXL's global persistent flush, caches included: a fence suffices.
    Gpf,
    /// What `msync` has written to the disk of an ordinary file.
    Msync,
    /// Nothing. Instructions are issued as for [`Domain::Adr`], so that costs and counters are those of NVM.
    Volatile,
}

/// All domains, as they are spelled; the place is the code in a pool's header.
const NAMES: [(&str, Domain); 6] = [
    ("auto", Domain::Auto),
    ("adr", Domain::Adr),
    ("eadr", Domain::Eadr),
    ("gpf", Domain::Gpf),
    ("msync", Domain::Msync),
    ("volatile", Domain::Volatile),
];

/// No such domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no persistence domain: choose auto, adr, eadr, gpf, msync or volatile")]
pub struct DomainError(pub String);

impl Domain {
    /// As it is spelled.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, d)| *d == self).map_or("auto", |(name, _)| name)
    }

    /// Stores in the caches survive: no line is written back.
    pub fn caches_survive(self) -> bool {
        matches!(self, Self::Eadr | Self::Gpf)
    }

    /// What a power cut does to memory of this domain.
    pub fn crashes_as(self) -> Kind {
        if self.caches_survive() { Kind::PersistentCaches } else { Kind::Nvm }
    }

    /// The number that stands for it in a pool's header.
    pub(crate) fn code(self) -> u32 {
        NAMES.iter().zip(0..).find(|((_, d), _)| *d == self).map_or(0, |(_, code)| code)
    }

    /// The domain of a pool's header.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        NAMES.get(code as usize).map(|(_, domain)| *domain)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Self, DomainError> {
        NAMES.iter().find(|(name, _)| *name == text).map(|(_, d)| *d).ok_or_else(|| DomainError(text.into()))
    }
}

/// What an NVM is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediumKind {
    /// A DAX device.
    DaxDevice,
    /// A file on a DAX file system, mapped with `MAP_SYNC`.
    DaxFile,
    /// A file that lies in memory, on tmpfs: a stand-in.
    Tmpfs,
    /// An ordinary file in the page cache of a disk.
    File,
    /// Memory of this process: a stand-in.
    Memory,
}

impl MediumKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::DaxDevice => "DAX device",
            Self::DaxFile => "file on a DAX file system",
            Self::Tmpfs => "file on tmpfs",
            Self::File => "ordinary file",
            Self::Memory => "memory of this process",
        }
    }

    /// Has power failure to be reckoned with, and instructions to be right.
    pub(crate) fn is_nvm(self) -> bool {
        matches!(self, Self::DaxDevice | Self::DaxFile)
    }

    /// One sentence: which crashes contents of such a medium survive in `domain`.
    pub(crate) fn survives(self, domain: Domain) -> &'static str {
        match (self, domain) {
            (Self::Memory, _) => "what is stored here survives nothing: it ends with this process",
            (Self::Tmpfs, _) => {
                "what is stored here survives the death of this process, but neither a kernel crash nor a power cut: \
                 the file lies in memory"
            }
            (_, Domain::Adr) => {
                "what was written back and fenced survives a power cut, a kernel crash and the death of this process"
            }
            (_, Domain::Eadr) => {
                "what was stored survives a power cut, a kernel crash and the death of this process: the platform \
                 saves the caches"
            }
            (_, Domain::Gpf) => {
                "what was stored survives a power cut, a kernel crash and the death of this process, if the CXL \
                 device completes its flush"
            }
            (_, Domain::Msync) => {
                "what msync has written survives a power cut, a kernel crash and the death of this process, if the \
                 disk honours flushes"
            }
            (Self::File, _) => {
                "what is stored here survives the death of this process, but neither a kernel crash nor a power cut: \
                 nothing is forced to the disk"
            }
            (_, _) => {
                "what is stored here survives the death of this process; nothing says that the device keeps it \
                 without power"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_read_back() {
        for (code, (name, domain)) in (0..).zip(NAMES) {
            assert_eq!((domain.code(), Domain::from_code(code)), (code, Some(domain)));
            assert_eq!((name.parse(), domain.to_string().as_str()), (Ok(domain), name));
        }
        assert_eq!(Domain::from_code(6), None);
        assert!("optane".parse::<Domain>().unwrap_err().to_string().contains("`optane`"));
    }

    #[test]
    fn a_stand_in_never_claims_to_survive_a_power_cut() {
        for (_, domain) in NAMES {
            for kind in [MediumKind::Tmpfs, MediumKind::Memory] {
                let text = kind.survives(domain);
                assert!(text.contains("neither a kernel crash nor a power cut") || text.contains("survives nothing"));
            }
        }
        assert!(!MediumKind::File.survives(Domain::Volatile).contains("survives a power cut"));
        assert!(!MediumKind::DaxDevice.survives(Domain::Volatile).contains("survives a power cut"));
    }
}
