//! What a power cut may do. This page is the contract between everything that stores and the crash laboratory.
//!
//! All media of a volume share one [`PowerDomain`]: one sequence of [`Event`]s. A cut may come after any event, and
//! hits all media at that instant. What each then holds:
//!
//! **Block media.** Everything written before the last completed flush is there. (A flush is one instant, that of its
//! event: what is written while it is under way comes before it in some interleavings and after it in others.) Each
//! write since is there or not, independently of the others; and each may be torn: it consists of units of [`UNIT`]
//! aligned bytes, any subset of which arrived. That covers every order too: where two writes overlap, the older one
//! "arriving last" is the newer one without the units that they share. A discard is a write of zeros that may be torn
//! into up to [`DISCARD_PARTS`] parts. One range a medium may be declared [`Medium::whole`]: ext4's superblock, 1,024
//! bytes with one checksum over them, which ext4 itself needs to arrive whole or not at all. After a write that failed,
//! any part of it may be there, and after a flush that failed, everything that was on its way may be there or not: for
//! good, whatever flush comes later, until the same bytes are written again.
//!
//! **Media that take batches** ([`Kind::Batches`]). What was submitted takes effect in its order: after a cut, the
//! first batches of those that were submitted are there, each whole, and all that were settled among them. Writes and
//! discards beside batches have their places in the same order, and a flush settles everything before it.
//!
//! **NVM.** A medium of lines of [`LINE`] bytes behind caches that lose their contents ([`Kind::Nvm`]). Nothing larger
//! than an aligned word of [`WORD`] bytes is atomic. A thread's fence makes durable what the lines held when *this
//! thread* began to write them back; what another thread wrote back needs that thread's fence. For everything stored
//! later than that, each line is independent of all others and may have been evicted at any moment: it holds what it
//! held after some number of its stores. It may be torn as well: each of its words then holds what that word held after
//! some number of the line's stores, for each word another one. So an unfenced line may be there, a line that was never
//! written back may be there, and a line that was stored to twice may be there with the first store alone.
//!
//! **NVM behind caches that survive** ([`Kind::PersistentCaches`]: eADR, GPF). A thread's stores are durable in the
//! order in which it made them; its newest, until its next store or fence, may be lost or torn between words. What it
//! copied past the caches (which a recorder shows as written back) is on its way until its fence, as above. Memory
//! written back by `msync` to a disk ([`Kind::Nvm`], too) never does more than the caches above: a page may reach the
//! disk at any moment, and is torn at 512 bytes, which is coarser than words.
//!
//! [`Cut`] follows the events and knows what is durable and which [`Item`]s are not; one [`Keep`] for each of them is a
//! state; a [`Case`] is a state as text. [`Sampling`] says which states are built, wherever crashes are tried.
#![forbid(unsafe_code)]

mod case;
mod cut;
mod event;
mod item;
mod keep;
mod layer;
mod states;

pub use case::Case;
pub use cut::{Cut, Kind, Medium};
pub use event::{Event, PowerDomain, Reads};
pub use item::{Item, Queued, Store, Writes};
pub use keep::Keep;
pub use layer::{Layer, Pages, is_zero};
pub use states::{Built, Sampling};

/// Bytes of a block medium that are not torn by a crash.
pub const UNIT: usize = 512;

/// Parts of a discard that are there or not independently.
pub const DISCARD_PARTS: usize = 8;

/// Bytes of a line, the unit that a processor writes back.
pub const LINE: usize = 64;

/// Bytes of NVM that are not torn by a crash, where they are aligned.
pub const WORD: usize = 8;
