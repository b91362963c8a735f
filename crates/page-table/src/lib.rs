//! The persistent page table (papers/1): blocks of an image in NVM, each reached through an entry of a map that lies
//! there, too.
//!
//! ```text
//!   block of the image (LBN) ─▶ L2P map ─▶ page of the data area (PBN)
//! ```
//!
//! The paper keeps the page table itself in NVM, independent of processor and address, and gains an operation that no
//! disk has: to *swap* two blocks by exchanging their entries. An undo log makes that atomic, together with bytes that
//! the caller names, so that a checkpoint swaps journal and home blocks and moves the journal's tail in one step. Here
//! the map is injective and no permutation: a block may have no page and reads as zeros then, and the pages that no
//! entry names are free. So a write goes to a free page and is atomic ([`ondol_block::BlockStore`] for [`PageTable`]).
//!
//! A [`View`] has blocks at addresses that lie in a row, by the processor's own table, and [`PageTable::flatten`] puts
//! every block into the page of its number.
//!
//! Stored pages are lent as slices, and mapped as they are now (papers/4): `ondol_block::BlockStore::pin`,
//! `ondol_block::PageLender::map`, `docs/design/direct.md`.
//!
//! Format, invariants, locking and failure cases: `docs/design/page-table.md`; bytes: `docs/format.md`. It must not
//! know ext4 or journals: what blocks hold is the caller's.
//!
//! ```
//! use ondol_block::BlockStore;
//! use ondol_medium::{Nvm, Pool, PoolSpec};
//! use ondol_page_table::{PageTable, TableSpec};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut pool = Pool::create(Nvm::volatile(8 << 20)?, &PoolSpec::default())?;
//! TableSpec { uuid: [7; 16], ..TableSpec::default() }.make(&mut pool)?;
//! let table = PageTable::attach(&pool)?;
//! table.write(0, b"warm floor")?;
//! table.swap(0, 9)?;
//! let mut found = [0; 10];
//! table.read(9 * 4096, &mut found)?;
//! assert_eq!(&found, b"warm floor");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod attach;
mod check;
mod error;
mod flatten;
mod format;
mod free;
mod in_place;
mod layout;
mod lend;
mod log;
mod make;
mod map;
mod memory;
mod pins;
mod snapshot;
mod store;
mod table;
mod transaction;
mod view;
mod write;

pub use attach::has_table;
pub use check::{TableReport, check};
pub use error::{LogFault, MapFault, Result, TableError};
pub use flatten::{Flatness, Flattened};
pub use format::{LINE, TABLE_VERSION};
pub use layout::pool_size;
pub use make::TableSpec;
pub use table::{Page, PageTable, TableStats};
pub use transaction::Transaction;
pub use view::{Remapping, View, ViewSpec, ViewStats};
