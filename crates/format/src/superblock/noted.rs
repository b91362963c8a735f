//! What the superblock is told while the volume is in use: errors that were found, and how names are hashed.

use super::{FLAG_SIGNED_HASH, FLAG_UNSIGNED_HASH, RawSuperblock};
use crate::feature::Compat;

/// s_first_error_errcode and s_last_error_errcode: an error of no other kind.
pub const ERRCODE_UNKNOWN: u8 = 1;
/// s_first_error_errcode and s_last_error_errcode: a structure breaks its rules (EFSCORRUPTED).
pub const ERRCODE_CORRUPTED: u8 = 5;

/// One error, in the superblock's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundError {
    seconds: i64,
    place: [u8; 32],
    block: u64,
    code: u8,
}

impl FoundError {
    /// An error of `structure` in `block`, found at `seconds`. The kernel keeps the name of one of its functions here;
    /// what has more than 32 bytes is cut.
    pub fn new(seconds: i64, structure: &str, block: u64, code: u8) -> FoundError {
        let mut place = [0; 32];
        for (to, from) in place.iter_mut().zip(structure.bytes()) {
            *to = from;
        }
        FoundError { seconds, place, block, code }
    }
}

impl RawSuperblock {
    /// Whether something says how directory hashes take characters.
    pub fn has_hash_hint(&self) -> bool {
        self.s_flags.get() & (FLAG_SIGNED_HASH | FLAG_UNSIGNED_HASH) != 0
    }

    /// Writes down how directory hashes take characters (`FLAG_SIGNED_HASH` or `FLAG_UNSIGNED_HASH`), where there are
    /// such hashes and nothing says it yet.
    pub fn note_hash(&mut self, hint: u32) {
        if self.features().compat.contains(Compat::DIR_INDEX) && !self.has_hash_hint() {
            self.s_flags.set(self.s_flags.get() | hint);
        }
    }

    /// Counts `count` errors more, of which `last` is the latest; `first` is kept if it is the first of all.
    pub fn note_errors(&mut self, first: &FoundError, last: &FoundError, count: u32) {
        if self.s_first_error_time.get() == 0 && self.s_first_error_time_hi == 0 {
            self.set_first_error_time(first.seconds);
            self.s_first_error_func = first.place;
            self.s_first_error_block.set(first.block);
            self.s_first_error_ino.set(0);
            self.s_first_error_line.set(0);
            self.s_first_error_errcode = first.code;
        }
        self.set_last_error_time(last.seconds);
        self.s_last_error_func = last.place;
        self.s_last_error_block.set(last.block);
        self.s_last_error_ino.set(0);
        self.s_last_error_line.set(0);
        self.s_last_error_errcode = last.code;
        self.s_error_count.set(self.s_error_count.get().saturating_add(count));
    }
}
