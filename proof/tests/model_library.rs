//! The library against the reference model, on images of many kinds, with all engines, with remounts; e2fsck has the
//! last word.

use ondol_block::RamStore;
use ondol_env::sync::Arc;
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::{Op, text};
use ondol_testkit::rig::Setup;
use ondol_testkit::strategy;
use ondol_testkit::target::{Library, Lockstep};
use ondol_tests::{depth, hunt};

fn run(image: &[u8], setup: Setup, ops: &[Op]) -> Result<(), String> {
    let ram = Arc::new(RamStore::from_bytes(image.to_vec()));
    let library = Library::open(setup.media(ram.clone()), &setup.options(), 1).map_err(|e| e.to_string())?;
    let mut lockstep = Lockstep::new(library)?;
    let done = lockstep.run(ops, 10).map_err(|e| e.to_string());
    let said = lockstep.target().failure().map(|f| format!("\nthe last failure was: {f}")).unwrap_or_default();
    done.map_err(|e| e + &said)?;
    lockstep.into_target().close().map_err(|e| e.to_string())?;
    let verdict = image::check(&ram.to_bytes()).map_err(|e| e.to_string())?;
    if verdict.is_clean() { Ok(()) } else { Err(format!("e2fsck -fn:\n{}", verdict.output)) }
}

/// With an engine in a data mode, and with the other engine in another one.
fn agree(spec: &Spec, turn: usize) {
    let image = spec.make().unwrap();
    for setup in Setup::pair(turn) {
        hunt(depth("ONDOL_CASES", 50, 150).div_ceil(2), strategy::ops(1..150), |ops| {
            run(&image, setup, ops).map_err(|e| format!("{setup:?}: {e}"))
        });
    }
}

/// What mke2fs makes of `-t ext3`.
const EXT3: &str = "-O ^extent,^metadata_csum,^64bit,^flex_bg,^huge_file,^dir_nlink,^extra_isize";

#[test]
fn small_blocks() {
    agree(&Spec::new(16 << 20, 1024).journal(4), 0);
}

#[test]
fn small_blocks_in_another_mode() {
    agree(&Spec::new(16 << 20, 1024).journal(4), 1);
}

#[test]
fn pages() {
    agree(&Spec::new(32 << 20, 4096), 2);
}

#[test]
fn pages_with_orphan_file() {
    agree(&Spec::new(32 << 20, 4096).with("-O orphan_file,metadata_csum_seed"), 3);
}

#[test]
fn two_kib_without_checksums() {
    agree(&Spec::new(24 << 20, 2048).with("-O ^metadata_csum,^64bit,^flex_bg"), 4);
}

#[test]
fn block_maps() {
    agree(&Spec::new(16 << 20, 1024).journal(4).with(EXT3), 5);
}

#[test]
fn block_maps_with_checksums() {
    agree(&Spec::new(24 << 20, 2048).with("-O ^extent,^64bit"), 6);
}

#[test]
fn inline_data() {
    agree(&Spec::new(16 << 20, 1024).journal(4).with("-O inline_data"), 7);
}

#[test]
fn inline_data_in_large_inodes_without_indexes() {
    agree(&Spec::new(24 << 20, 2048).with("-I 1024 -O inline_data,^dir_index"), 8);
}

#[test]
fn clusters() {
    agree(&Spec::new(24 << 20, 1024).journal(4).with("-O bigalloc -C 8192"), 9);
}

#[test]
fn a_tiny_volume_with_clusters_runs_full() {
    agree(&Spec::new(4 << 20, 1024).journal(1).with("-N 32 -O bigalloc -C 4096"), 10);
}

#[test]
fn a_tiny_volume_runs_full() {
    agree(&Spec::new(3 << 20, 1024).journal(1).with("-N 32"), 11);
}

/// A directory with an index, and a file with its contents: they have flags that no call can set, which ext4 holds
/// against whoever sets what an immutable inode has already.
#[test]
fn what_is_immutable_is_made_so_again() {
    let names = (0..80).map(|n| format!("create /d/a_name_that_takes_some_room_{n} 0644\n"));
    let calls = "mkdir /d 0755\n".to_owned()
        + &names.collect::<String>()
        + "create /a 0644\nwrite /a 0 10 #1\nchattr /a i\nchattr /a i\nchattr /d i\nchattr /d i\nchattr /d -\n\
           unlink /d/a";
    let ops: Vec<Op> = text::parse(&calls).unwrap();
    for features in ["", "-O inline_data"] {
        let image = Spec::new(16 << 20, 1024).journal(4).with(features).make().unwrap();
        run(&image, Setup::CLASSIC_ORDERED, &ops).unwrap();
    }
}
