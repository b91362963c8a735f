//! The library against the reference model, on images of many kinds, with remounts; e2fsck has the last word.

use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_testkit::image::{self, Spec};
use ondol_testkit::op::{Op, text};
use ondol_testkit::strategy;
use ondol_testkit::target::{Library, Lockstep};
use ondol_tests::{hunt, parameter};
use ondol_volume::DataMode;

fn run(image: &[u8], data: DataMode, ops: &[Op]) -> Result<(), String> {
    let ram = Arc::new(RamStore::from_bytes(image.to_vec()));
    let store: Arc<dyn BlockStore> = ram.clone();
    let library = Library::open(store, &image::options(data), 1).map_err(|e| e.to_string())?;
    let mut lockstep = Lockstep::new(library)?;
    let done = lockstep.run(ops, 10).map_err(|e| e.to_string());
    let said = lockstep.target().failure().map(|f| format!("\nthe last failure was: {f}")).unwrap_or_default();
    done.map_err(|e| e + &said)?;
    lockstep.into_target().close().map_err(|e| e.to_string())?;
    let verdict = image::check(&ram.to_bytes()).map_err(|e| e.to_string())?;
    if verdict.is_clean() { Ok(()) } else { Err(format!("e2fsck -fn:\n{}", verdict.output)) }
}

fn agree(spec: &Spec, data: DataMode) {
    let image = spec.make().unwrap();
    hunt(parameter("ONDOL_CASES", 150), strategy::ops(1..150), |ops| run(&image, data, ops));
}

/// What mke2fs makes of `-t ext3`.
const EXT3: &str = "-O ^extent,^metadata_csum,^64bit,^flex_bg,^huge_file,^dir_nlink,^extra_isize";

#[test]
fn small_blocks_ordered() {
    agree(&Spec::new(16 << 20, 1024).journal(4), DataMode::Ordered);
}

#[test]
fn small_blocks_journal() {
    agree(&Spec::new(16 << 20, 1024).journal(4), DataMode::Journal);
}

#[test]
fn pages_writeback() {
    agree(&Spec::new(32 << 20, 4096), DataMode::Writeback);
}

#[test]
fn pages_journal_with_orphan_file() {
    agree(&Spec::new(32 << 20, 4096).with("-O orphan_file,metadata_csum_seed"), DataMode::Journal);
}

#[test]
fn two_kib_without_checksums() {
    agree(&Spec::new(24 << 20, 2048).with("-O ^metadata_csum,^64bit,^flex_bg"), DataMode::Ordered);
}

#[test]
fn block_maps_ordered() {
    agree(&Spec::new(16 << 20, 1024).journal(4).with(EXT3), DataMode::Ordered);
}

#[test]
fn block_maps_journal_with_checksums() {
    agree(&Spec::new(24 << 20, 2048).with("-O ^extent,^64bit"), DataMode::Journal);
}

#[test]
fn inline_data_ordered() {
    agree(&Spec::new(16 << 20, 1024).journal(4).with("-O inline_data"), DataMode::Ordered);
}

#[test]
fn inline_data_in_large_inodes_without_indexes() {
    agree(&Spec::new(24 << 20, 2048).with("-I 1024 -O inline_data,^dir_index"), DataMode::Journal);
}

#[test]
fn clusters_ordered() {
    agree(&Spec::new(24 << 20, 1024).journal(4).with("-O bigalloc -C 8192"), DataMode::Ordered);
}

#[test]
fn a_tiny_volume_with_clusters_runs_full() {
    agree(&Spec::new(4 << 20, 1024).journal(1).with("-N 32 -O bigalloc -C 4096"), DataMode::Journal);
}

#[test]
fn a_tiny_volume_runs_full() {
    agree(&Spec::new(3 << 20, 1024).journal(1).with("-N 32"), DataMode::Ordered);
}

/// A directory with an index, and a file with its contents: they have flags that no call can set, which ext4 holds against whoever sets
/// what an immutable inode has already.
#[test]
fn what_is_immutable_is_made_so_again() {
    let names = (0..80).map(|n| format!("create /d/a_name_that_takes_some_room_{n} 0644\n"));
    let calls = "mkdir /d 0755\n".to_owned()
        + &names.collect::<String>()
        + "create /a 0644\nwrite /a 0 10 #1\nchattr /a i\nchattr /a i\nchattr /d i\nchattr /d i\nchattr /d -\nunlink /d/a";
    let ops: Vec<Op> = text::parse(&calls).unwrap();
    for features in ["", "-O inline_data"] {
        let image = Spec::new(16 << 20, 1024).journal(4).with(features).make().unwrap();
        run(&image, DataMode::Ordered, &ops).unwrap();
    }
}
