//! Allocation of blocks and inodes, sharded by block group.
//!
//! A group's in-memory bitmaps say what is *busy*: used on the medium, claimed by an open operation, or freed by a
//! transaction that is not durable yet. The bitmap blocks on the medium are changed by masks in the operation's handle;
//! their counts and checksums are derived when the journal seals them, so two operations in one group meet only for
//! the moment in which one of them takes its bits.
//!
//! With bigalloc, bitmaps and counts are in clusters of several blocks; without, a cluster is a block. Runs are in
//! blocks everywhere, and what is taken or returned is whole clusters.
//!
//! Space is promised before an operation's first change: the promise is taken from one global count, and whatever is
//! promised is somewhere free in the groups.

mod blocks;
mod free;
mod group;
mod inodes;
mod trim;
mod windows;

pub(crate) use blocks::{Wanted, clusters, per_group};
pub(crate) use group::{GroupInfo, Groups, Need};
