//! Working memory out of the free space of a volume in a pool (papers/4, §2.1). Design: `docs/design/direct.md`.

use crate::mounted::Hold;
use crate::{Open, Result, Volume};
use ondol_block::{Memory, Own};
use ondol_journal::JournalError;
use ondol_volume::{Error as VolumeError, MemoryBlocks};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Memory in NVM: bytes at addresses that lie in a row, to be read and stored to like any other. Its pages are free
/// blocks of the volume, and are that again when it is dropped, or after a crash.
///
/// Nothing of it is durable, ever: it is for what is larger than the machine's memory, or what would only be in the way
/// there. It must not be used in the child of a fork(2).
pub struct Scratch {
    held: Held,
    /// Dropped after it.
    volume: Hold,
}

/// A [`Scratch`] that was set aside: files may take its space if they find no other.
pub struct Aside {
    held: ondol_volume::Aside<Held>,
    /// Dropped after it.
    volume: Hold,
}

struct Held {
    /// Given back before its blocks are.
    memory: Box<dyn Memory>,
    len: usize,
    blocks: MemoryBlocks,
}

/// How often pages that are busy are exchanged for others.
const ROUNDS: usize = 8;

impl Volume {
    /// Lends `len` bytes of memory, zeros, out of the free blocks of a volume in an NVM pool: whole pages of 4096
    /// bytes.
    ///
    /// Who yields to whom: memory takes no block that files have or that is reserved for the privileged; where there
    /// are too few free ones it waits until what was removed is durably free, and then takes what was set aside
    /// ([`Scratch::set_aside`]), if that is enough. Memory that somebody has is never taken back: files that find no
    /// space are told so, as if another file had it, and [`Volume::statfs`] counts it as used.
    ///
    /// ```
    /// # use ondol::{FormatOptions, Volume};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let at = dir.path().join("pool");
    /// # let target = format!("nvm:{}", at.display());
    /// # Volume::format(&target, &FormatOptions::new().size(64 << 20))?;
    /// let volume = Volume::open(&target)?;
    /// let mut memory = volume.scratch(10 << 20)?;
    /// memory[5 << 20] = 1;
    /// drop(memory);
    /// # volume.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSpace`; `ReadOnly`; `Unsupported`: the volume does not lie in a pool, or its blocks are smaller than a page,
    /// or others may store to the pool, or the process has no more mappings (pages that lie side by side take one).
    pub fn scratch(&self, len: u64) -> Result<Scratch> {
        self.usable()?;
        let composed = self.doors.composed();
        let unsupported = |what: String| VolumeError::Unsupported(what);
        let block_size = u64::from(self.statfs().block_size);
        let lender = composed.store.lender();
        let lender = lender.filter(|lender| u64::from(lender.page_bytes()) == block_size).ok_or_else(|| {
            unsupported(
                "memory comes out of the pages of an NVM pool, so the volume has to lie in one and have blocks of \
                 4096 bytes"
                    .into(),
            )
        })?;
        let bytes = usize::try_from(len).map_err(|_| VolumeError::FileTooBig)?;
        // No memory is a page, too.
        let wanted = len.div_ceil(block_size).max(1);
        let mut blocks = composed.inodes.space().take_for_memory(wanted)?;
        let mut busy = Vec::new();
        for round in 0..ROUNDS {
            let runs: Vec<_> = blocks.runs().collect();
            match lender.own(&runs).map_err(JournalError::from).map_err(VolumeError::from)? {
                Own::Memory(memory) => {
                    let held = Held { memory, len: bytes, blocks };
                    return Ok(Scratch { held, volume: self.doors.hold(Open::Memory) });
                }
                Own::Refused(why) => {
                    return Err(unsupported(format!("{wanted} pages of this pool cannot be memory: {why}")).into());
                }
                Own::Short => composed.inodes.write_home()?,
                Own::Busy(_) if round == 0 => composed.inodes.write_home()?,
                Own::Busy(list) => {
                    // Somebody reads what they were in place. Others may be had; these are kept until then, or they
                    // would be found again.
                    busy.push(blocks.split_off(list));
                    let more = composed.inodes.space().take_for_memory(wanted.saturating_sub(blocks.blocks()))?;
                    blocks.join(more);
                    composed.inodes.write_home()?;
                }
            }
        }
        Err(VolumeError::NoSpace("pages that nobody reads").into())
    }
}

impl Scratch {
    /// Keeps what is in it as long as no file, and no other memory, needs the space. What was set aside first goes
    /// first.
    pub fn set_aside(self) -> Aside {
        let Self { held, volume } = self;
        let blocks = held.blocks.blocks();
        Aside { held: volume.composed().inodes.space().set_aside(held, blocks), volume }
    }
}

impl Aside {
    /// The memory again, with what was in it; `None` if somebody needed its space.
    pub fn take_up(self) -> Option<Scratch> {
        let Self { held, volume } = self;
        held.take_up().map(|held| Scratch { held, volume })
    }

    /// Whether it is there still. It may be taken at any moment.
    pub fn is_there(&self) -> bool {
        self.held.is_there()
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.held.memory.bytes().get(..self.held.len).unwrap_or_default()
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.held.len;
        self.held.memory.bytes_mut().get_mut(..len).unwrap_or_default()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({} bytes)", self.len())
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aside({})", if self.is_there() { "there" } else { "gone" })
    }
}
