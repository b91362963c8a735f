//! The volume through its own interface, on images of mke2fs and in all engines and data modes; judged by e2fsck,
//! debugfs and the kernel.
//!
//! One program, so that tests which wait for others' programs leave no processor idle.

mod attr_set;
mod check_bits;
mod check_clean;
mod check_damage;
mod cluster;
mod dir_hashes;
mod dir_hostile;
mod dir_kernel;
mod dir_large;
mod dir_model;
mod dir_names;
mod dir_positions;
mod dir_rig;
mod dir_space;
mod dir_threads;
mod dir_unnamed;
mod extra_fields;
mod file_batches;
mod file_batches_crash;
mod file_crash;
mod file_exchange;
mod file_hostile;
mod file_kept;
mod file_map;
mod file_model;
mod file_parts;
mod file_shift;
mod file_space;
mod file_streams;
mod file_threads;
mod file_tree;
mod file_trim;
mod file_util;
mod forgotten;
mod inline;
mod journal_map;
mod named_system;
mod orphan_recovery;
mod orphan_steps;
mod pages;
mod places;
mod promises;
mod rig;
mod transaction_crash;
mod transaction_overwrites;
mod transaction_room;
mod transaction_threads;
mod transaction_util;
mod transaction_whole;
mod xattr_large_acls;
mod xattr_signed;
mod xattr_values;
