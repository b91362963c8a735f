//! Structures and checksums of ext4 against what e2fsprogs and the kernel write and read.

mod common;
mod hash;
mod hostile;
mod kernel;
mod mke2fs_images;
mod mkfs;
mod model;
