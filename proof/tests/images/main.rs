//! Images of every kind: as mke2fs, tune2fs and kernels make them, clean, crashed and damaged, on other media, and held
//! by others.
//!
//! One program: most of these tests wait, for the kernel's clock or for whoever holds an image, while others work.

mod cut_short;
mod damaged;
mod elsewhere;
mod fast_commit;
mod fields;
mod held;
mod journal_size;
mod journals;
mod large_dir;
mod oracles;
mod read_only;
mod resize;
mod resize_crash;
mod resize_online;
mod shapes;
mod short_journal;
mod superblock;
mod table;
mod values;

use std::thread;

/// Tests that do little but wait, by the clocks of the kernel and of e2fsck, for whether somebody else has a volume:
/// all at once, before others.
#[test]
fn all_that_wait() {
    let tests: [(&str, fn()); 3] = [
        ("a_protected_volume_is_held", elsewhere::a_protected_volume_is_held),
        ("a_kernel_keeps_away_and_so_do_we", elsewhere::a_kernel_keeps_away_and_so_do_we),
        ("a_damaged_mmp_block_is_refused_and_mended", damaged::a_damaged_mmp_block_is_refused_and_mended),
    ];
    thread::scope(|scope| {
        for (name, test) in tests {
            thread::Builder::new().name(name.into()).spawn_scoped(scope, test).expect("a thread");
        }
    });
}
