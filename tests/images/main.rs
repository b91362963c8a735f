//! Images of every kind: as mke2fs, tune2fs and kernels make them, clean, crashed and damaged, on other media, and held by others.
//!
//! One program: most of these tests wait, for the kernel's clock or for whoever holds an image, while others work.

mod damaged;
mod elsewhere;
mod held;
mod journals;
mod large_dir;
mod read_only;
mod superblock;
mod table;
mod values;
