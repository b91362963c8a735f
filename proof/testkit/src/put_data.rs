//! File data put into handles, as a volume puts it there.

use ondol_journal::{Before, Bytes, Engine, Extent, Handle, Placement, Result, Run};

/// Data of one block for a handle.
pub trait PutData<'e> {
    /// Bytes over stored ones, for the log.
    ///
    /// # Errors
    /// As [`Handle::put_data`], as with all of these.
    fn data(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()>;
    /// Bytes in a block that the handle has allocated.
    ///
    /// # Errors
    /// As [`PutData::data`].
    fn new_data(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()>;
    /// All bytes of a block, which stay where they are.
    ///
    /// # Errors
    /// As [`PutData::data`].
    fn lend(&mut self, block: u64, bytes: &'e [u8], is_new: bool) -> Result<()>;
}

impl<'e> PutData<'e> for Handle<'e> {
    fn data(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.put_data(block, offset, Bytes::Passing(bytes), Placement::Logged, Before::Stored)
    }

    fn new_data(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        self.put_data(block, offset, Bytes::Passing(bytes), Placement::Delayed, Before::New)
    }

    fn lend(&mut self, block: u64, bytes: &'e [u8], is_new: bool) -> Result<()> {
        let (to, before) = match is_new {
            true => (Placement::Delayed, Before::New),
            false => (Placement::Logged, Before::Stored),
        };
        self.put_data(block, 0, Bytes::Lent(bytes), to, before)
    }
}

/// Where an engine places data that is not journaled: the answer for the first of these blocks.
pub fn placed(engine: &dyn Engine, extent: Extent, before: Before, bytes: usize) -> Placement {
    engine.place(&Run { extent, bytes, before, journaled: false, delayed: 0 }).0
}
