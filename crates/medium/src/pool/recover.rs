//! What the two copies of a pool's header say together, after a crash or years in a drawer.

use super::HEADERS;
use super::error::{PoolError, Result};
use super::format::Header;
use crate::HeaderFault;
use crate::{Nvm, NvmError, PAGE};

/// The two copies of a pool's header as they are on the medium.
#[derive(Clone, Debug)]
pub struct PoolReport {
    /// What each copy says, or why it cannot be used. They lie at bytes 0 and 4096.
    pub copies: [std::result::Result<Header, HeaderFault>; 2],
}

/// Reads both copies of the header. Changes nothing.
///
/// # Errors
/// The medium's failure, except for lost lines: they are a fault of their copy.
pub fn inspect(nvm: &Nvm) -> Result<PoolReport> {
    let read = |offset| {
        let mut page = [0; PAGE as usize];
        match nvm.read(offset, &mut page) {
            Ok(()) => Ok(Header::decode(&page)),
            Err(NvmError::Poisoned { offset, .. }) => Ok(Err(HeaderFault::Lost(offset))),
            Err(NvmError::OutOfRange { .. }) => Ok(Err(HeaderFault::NoSignature)),
            Err(e) => Err(PoolError::Nvm(e)),
        }
    };
    let [first, second] = HEADERS;
    Ok(PoolReport { copies: [read(first)?, read(second)?] })
}

impl PoolReport {
    /// The header that counts: the newer of two intact copies, or the only one. `name` and `size` are the medium's.
    ///
    /// # Errors
    /// `NotAPool`, `Newer`, `Damaged`, `Differ`, `Truncated`.
    pub fn header(&self, name: &str, size: u64) -> Result<&Header> {
        let name = || String::from(name);
        let newer = |f: &&HeaderFault| matches!(f, HeaderFault::Version(_) | HeaderFault::Features(_));
        if let Some(what) = self.copies.iter().filter_map(|c| c.as_ref().err()).find(newer) {
            return Err(PoolError::Newer { name: name(), what: what.clone() });
        }
        let header = match &self.copies {
            [Ok(a), Ok(b)] if a.generation == b.generation && a != b => return Err(PoolError::Differ { name: name() }),
            [Ok(a), Ok(b)] => {
                if b.generation > a.generation {
                    b
                } else {
                    a
                }
            }
            [Ok(only), Err(_)] | [Err(_), Ok(only)] => only,
            [Err(HeaderFault::NoSignature), Err(HeaderFault::NoSignature)] => {
                return Err(PoolError::NotAPool { name: name() });
            }
            [Err(first), Err(second)] => {
                return Err(PoolError::Damaged { name: name(), first: first.clone(), second: second.clone() });
            }
        };
        match header.size <= size {
            true => Ok(header),
            false => Err(PoolError::Truncated { name: name(), size: header.size, have: size }),
        }
    }
}
