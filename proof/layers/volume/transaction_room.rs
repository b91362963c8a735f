//! Transactions and the room that they need: journal, blocks, and files that are too large to be freed at once.

use crate::file_util::{Random, Rig, fsck, mkfs, mount};
use crate::transaction_util::*;
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use ondol_volume::{Error, Step};

over_setups! {
    what_the_journal_cannot_take_is_refused_and_changes_nothing,
    without_data_in_the_journal_data_does_not_count,
    a_journal_full_of_others_is_waited_for,
    a_full_volume_refuses_and_blocks_freed_just_now_are_waited_for,
    a_truncate_is_whole_or_too_big,
    what_is_too_large_to_be_freed_at_once_is_deleted_afterwards,
    an_open_file_lives_on_without_names,
    a_refused_transaction_leaves_bytes_over_stored_ones,
}

fn is_too_big(rig: &Rig, steps: &[Step]) {
    let e = refused(&rig.vol, steps);
    assert!(matches!(e.error, Error::TooBig { need, max } if need > max), "{e}");
    assert_eq!(e.step, None);
}

/// Directories, each of which takes a block of its own.
fn directories(n: usize) -> Vec<Step> {
    (0..n).map(|i| create_dir(&format!("/directory {i}"))).collect()
}

fn what_the_journal_cannot_take_is_refused_and_changes_nothing() {
    if !Setup::current().journals_data() {
        return;
    }
    let rig = mount(mkfs("24M", &["-b", "1024", "-J", "size=1", "-N", "2000"], 0));
    let max = rig.engine.max_blocks() as usize;
    apply(&rig.vol, &replace("/f", &[1; 3000]));
    is_too_big(&rig, &replace("/f", &vec![2; (max + 1) * 1024]));
    is_too_big(&rig, &directories(max + 1));
    // The last of many steps is what makes it too much.
    let mut steps = replace("/f", &[3; 2000]).to_vec();
    steps.extend((0..5).map(|i| write_at("/f", 100_000 * i, &vec![4; max / 4 * 1024])));
    is_too_big(&rig, &steps);
    // What fits takes most of what there is (four directories share a block of inodes): a block that many steps change
    // counts once.
    apply(&rig.vol, &directories(max * 2 / 3));
    apply(&rig.vol, &replace("/f", &vec![5; max * 3 / 4 * 1024]));
    let many: Vec<Step> = (0..3 * max).map(|i| write_at("/f", i as u64, &[6])).collect();
    apply(&rig.vol, &many);
    rig.unmount_checked();
}

fn without_data_in_the_journal_data_does_not_count() {
    // New data of one transaction is in memory until its commit where the engine decides where it goes.
    if Setup::current().journals_data() || Setup::current().takes_overwrites() {
        return;
    }
    let rig = mount(mkfs("24M", &["-b", "1024", "-J", "size=1", "-N", "2000"], 0));
    let content = Random(1).bytes(4 << 20);
    apply(&rig.vol, &replace("/f", &content));
    apply(&rig.vol, &[write_at("/f", 0, &content[1 << 20..])]);
    assert!(tree(&rig.vol)["/f"].content[..3 << 20] == content[1 << 20..]);
    is_too_big(&rig, &directories(rig.engine.max_blocks() as usize + 1));
    rig.unmount_checked();
}

fn a_journal_full_of_others_is_waited_for() {
    if !Setup::current().journals_data() {
        return;
    }
    let rig = mount(mkfs("16M", &["-b", "1024", "-J", "size=1", "-N", "2000"], 0));
    let max = rig.engine.max_blocks() as usize;
    // Nothing is ever synced, so every few transactions need a commit and a checkpoint before they can begin.
    for round in 0..40 {
        let mut steps = vec![create(&format!("/f{round}"))];
        steps.extend((0..6).map(|i| append(&format!("/f{round}"), &vec![i; max / 10 * 1024])));
        apply(&rig.vol, &steps);
    }
    // What is written home takes little of the journal; who needs room in a pool checkpoints.
    let stats = rig.engine.stats();
    let in_pool = Setup::current().has_pool() && stats.foreground_checkpoints > 0;
    assert!(stats.foreground_commits > 0 || stats.staged_blocks > 0 || in_pool);
    assert_eq!(names(&rig.vol, ondol_volume::ROOT).len(), 41);
    rig.unmount_checked();
}

fn a_full_volume_refuses_and_blocks_freed_just_now_are_waited_for() {
    let rig = mount(mkfs("8M", &["-b", "1024", "-J", "size=1", "-m", "0"], 1));
    apply(&rig.vol, &[create("/small"), create("/large")]);
    rig.vol.sync().expect("a sync");
    let large = find(&rig.vol, "/large");
    while rig.vol.files().append(large, &[1; 40 << 10]).is_ok() {}
    let e = refused(&rig.vol, &[append("/small", &[2; 100]), append("/small", &[3; 100 << 10])]);
    assert!(matches!(e.error, Error::NoSpace(_)), "{e}");
    // Freed, but not yet durable: the transaction makes it so.
    rig.vol.sync().expect("a sync");
    rig.vol.files().truncate(large, 1 << 20).expect("a truncate");
    apply(&rig.vol, &[append("/small", &[2; 100]), append("/small", &[3; 100 << 10])]);
    assert_eq!(tree(&rig.vol)["/small"].size, 100 + (100 << 10));
    rig.unmount_checked();
}

/// A file with blocks in `groups` groups of 256 blocks.
fn spread(rig: &Rig, path: &str, groups: u64) {
    let ino = find(&rig.vol, path);
    rig.vol.files().write(ino, 0, &vec![9; (groups * 256 * 1024) as usize]).expect("a write");
}

fn a_truncate_is_whole_or_too_big() {
    for (journal, fits) in [("size=4", true), ("size=1", false)] {
        let args = ["-b", "1024", "-g", "256", "-N", "256", "-J", journal];
        let rig = mount(mkfs("96M", &args, 1));
        spread(&rig, "/f0", 300);
        let steps = [set_len("/f0", 10), write_at("/f0", 5_000_000, b"behind the new end"), create("/more")];
        if fits {
            apply(&rig.vol, &steps);
            let seen = &tree(&rig.vol)["/f0"];
            assert_eq!(seen.size, 5_000_018);
            assert!(seen.content[..10] == [9; 10] && seen.content[10..5_000_000].iter().all(|b| *b == 0));
        } else {
            is_too_big(&rig, &steps);
        }
        assert!(rig.vol.inode_ops().orphans_empty().expect("an answer"));
        rig.unmount_checked();
    }
}

fn what_is_too_large_to_be_freed_at_once_is_deleted_afterwards() {
    for features in ["^orphan_file", "orphan_file"] {
        let args = ["-b", "1024", "-g", "256", "-N", "256", "-J", "size=1", "-O", features];
        let rig = mount(mkfs("64M", &args, 2));
        rig.vol.sync().expect("a sync");
        let free = rig.vol.statfs().free;
        spread(&rig, "/f0", 80);
        spread(&rig, "/f1", 80);
        apply(&rig.vol, &[create("/new"), rename("/new", "/f0"), remove_file("/f1"), create_dir("/f1")]);
        assert!(rig.vol.inode_ops().orphans_empty().expect("an answer"));
        rig.vol.sync().expect("a sync");
        assert!(rig.vol.statfs().free > free - 16, "the blocks are free again");
        rig.unmount_checked();
    }
}

fn an_open_file_lives_on_without_names() {
    for features in ["^orphan_file", "orphan_file"] {
        let rig = mount(mkfs("8M", &["-b", "1024", "-O", features], 2));
        let (removed, replaced) = (find(&rig.vol, "/f0"), find(&rig.vol, "/f1"));
        rig.vol.files().write(removed, 0, b"still").expect("a write");
        rig.vol.files().write(replaced, 0, b"there").expect("a write");
        let files_free = rig.vol.statfs().files_free;
        rig.vol.inode_ops().open(removed).expect("an open file");
        rig.vol.inode_ops().open(replaced).expect("an open file");
        apply(&rig.vol, &[remove_file("/f0"), create("/new"), rename("/new", "/f1")]);
        assert!(!rig.vol.inode_ops().orphans_empty().expect("an answer"));
        assert_eq!((rig.read_all(removed), rig.read_all(replaced)), (b"still".to_vec(), b"there".to_vec()));
        rig.vol.inode_ops().release(removed).expect("the last close");
        rig.vol.inode_ops().release(replaced).expect("the last close");
        assert!(rig.vol.inode_ops().orphans_empty().expect("an answer"));
        assert_eq!(rig.vol.statfs().files_free, files_free + 1);
        rig.unmount_checked();
    }
}

fn a_refused_transaction_leaves_bytes_over_stored_ones() {
    // They go home with the close, not before: the last step here fails after the others have been done.
    let rig = mount(mkfs("8M", &["-b", "1024"], 0));
    apply(&rig.vol, &replace("/f", &[1; 10_000]));
    rig.vol.sync().expect("a sync");
    let steps = [write_at("/f", 500, &[2; 5000]), set_len("/f", 3333), append("/f", b"x"), create("/f")];
    let before = rig.store.to_bytes();
    assert_eq!(refused(&rig.vol, &steps).step, Some(3));
    assert!(rig.store.to_bytes() == before, "something was written");
    apply(&rig.vol, &steps[..3]);
    let seen = &tree(&rig.vol)["/f"].content;
    assert!(seen[..500] == [1; 500] && seen[500..3333] == [2; 2833] && seen[3333..] == *b"x");
    fsck(&rig.unmount());
}
