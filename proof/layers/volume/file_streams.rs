//! How files lie on the medium that grow at the same time, and in how many calls large ones are written and read.

use crate::file_util::{Random, ino_of, mkfs, mount};
use ondol_block::BlockStore;
use ondol_testkit::over_engines;
use ondol_testkit::rig::Setup;

over_engines! {
    files_that_grow_together_stay_in_few_pieces,
    a_mebibyte_is_one_call,
}

fn files_that_grow_together_stay_in_few_pieces() {
    for files in [2, 5, 40] {
        let image = mkfs("256M", &["-b", "4096", "-N", "256"], files);
        let inos: Vec<_> = (0..files).map(|i| ino_of(&image, &format!("f{i}"))).collect();
        let rig = mount(image);
        let bytes = Random(1).bytes(4096);
        let each = 5000 / files;
        for _ in 0..each {
            for ino in &inos {
                rig.vol.files().append(*ino, &bytes).unwrap();
            }
        }
        let pieces: Vec<usize> =
            inos.iter().map(|ino| rig.vol.files().extents(*ino, 0, u64::MAX).unwrap().len()).collect();
        assert!(pieces.iter().all(|n| *n <= 8), "{files} files of {each} blocks: {pieces:?}");
        rig.unmount_checked();
    }
}

fn a_mebibyte_is_one_call() {
    let image = mkfs("256M", &["-b", "4096", "-N", "256"], 1);
    let ino = ino_of(&image, "f0");
    // A cache of a mebibyte would end a transaction with each of them.
    let rig = Setup::current().with_cache(32 << 20).run(|| mount(image));
    let mut bytes = Random(1).bytes(1 << 20);
    rig.vol.files().append(ino, &bytes).unwrap();
    let before = rig.store.stats();
    for _ in 0..100 {
        rig.vol.files().append(ino, &bytes).unwrap();
    }
    let written = rig.store.stats();
    let (writes, reads) = (written.writes - before.writes, written.reads - before.reads);
    // A pool of a few MiB is emptied a few times, with what else is in it.
    let most = if Setup::current().has_pool() { 150 } else { 110 };
    // What a store does block by block is counted so, too: that is the test's, and not the engine's.
    let by_block = Setup::current().goes_block_by_block();
    assert!(by_block || writes <= most && reads <= 10, "{writes} writes and {reads} reads for 100 MiB");
    for i in 0..100 {
        rig.vol.files().read(ino, i << 20, &mut bytes).unwrap();
    }
    let read = rig.store.stats();
    assert!(read.reads - written.reads <= 110, "{} reads for 100 MiB", read.reads - written.reads);
}
