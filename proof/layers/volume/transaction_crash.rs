//! What a crash at any moment leaves of transactions: all that may be left of unflushed writes while they are few, many
//! otherwise.

use crate::file_util::{fsck, medium, mkfs, mount, open, options, unmount};
use crate::transaction_util::*;
use ondol_block::{BlockStore, RamStore};
use ondol_env::{Fixed, Timestamp};
use ondol_journal::Engine;
use ondol_power::{Event, PowerDomain, Sampling};
use ondol_stores::Recorder;
use ondol_testkit::over_image_engines;
use ondol_testkit::rig::Setup;
use ondol_volume::{DataMode, Rename, Step, Volume};
use std::collections::BTreeSet;
use std::sync::Arc;

over_image_engines! {
    with_data_journal_a_transaction_is_there_whole_or_not_at_all,
    with_data_ordered_all_but_overwritten_bytes_is_there_whole_or_not_at_all,
    victims_are_deleted_with_the_transaction_or_keep_their_names,
}

/// Opens it with the engine of the current setup.
fn mounted(store: Arc<dyn BlockStore>, data: DataMode) -> (Arc<dyn Engine>, Volume) {
    let env = Arc::new(Fixed::new(Timestamp { sec: 2_000_000_000, nsec: 0 }, 1));
    Setup::current().with_data(data).run(|| open(store, env, options()))
}

/// Four files that belong together: one is replaced, one overwritten in place, one removed, one new under a moved
/// directory.
fn change(n: u8) -> Vec<Step> {
    let (here, there) = if n % 2 == 1 { ("/x", "/y/z") } else { ("/y/z", "/x") };
    let mut steps = replace("/replaced", &vec![n; 1500 + 700 * usize::from(n)]).to_vec();
    steps.extend([
        write_at("/overwritten", 300, &[n; 2000]),
        remove_file(&format!("{here}/file{}", n - 1)),
        rename(here, there),
        create(&format!("{there}/file{n}")),
        append(&format!("{there}/file{n}"), &[n; 1100]),
        set_xattr("/overwritten", "user.n", &[n; 4]),
        Step::Rename { from: trail("/one"), to: trail("/other"), how: Rename::Exchange },
    ]);
    steps
}

fn base() -> Vec<u8> {
    let rig = mount(mkfs("3M", &["-b", "1024", "-J", "size=1", "-N", "32"], 0));
    apply(&rig.vol, &[create_dir("/x"), create_dir("/y"), create("/x/file0"), create("/one"), create("/other")]);
    apply(&rig.vol, &[append("/one", b"1"), append("/other", b"2"), append("/x/file0", &[0; 1100])]);
    apply(&rig.vol, &replace("/replaced", &[0; 1500]));
    apply(&rig.vol, &replace("/overwritten", &[0; 5000]));
    rig.unmount_checked()
}

/// Calls `check` with images that a power cut could leave, and the last mark before it.
fn each_crash(base: &[u8], events: &[Event], mut check: impl FnMut(Vec<u8>, u64)) {
    let sampling = Sampling { all_of: 1, samples: 200, torn: 512, ..Sampling::default() };
    sampling.each(&medium(base), events, |layers, mark| check(layers[0].to_bytes(), mark));
}

/// Runs transactions on a recorded volume; the states between them, and what was written. Mark `n` says that `n` of
/// them are durable.
fn record(base: &[u8], data: DataMode) -> (Vec<Tree>, Vec<Event>) {
    let domain = PowerDomain::new();
    let store = Arc::new(Recorder::new(RamStore::from_bytes(base.to_vec()), 0, domain.clone()));
    let (engine, vol) = mounted(store, data);
    let mut states = vec![tree(&vol)];
    for n in 1..=3 {
        apply(&vol, &change(n));
        states.push(tree(&vol));
        if n != 2 {
            vol.sync().expect("a sync");
            domain.mark(n.into());
        }
    }
    engine.checkpoint_all().expect("a checkpoint");
    (states, domain.take())
}

/// Recovers an image; what it holds, and every now and then e2fsck's word that it is sound.
fn recovered(image: Vec<u8>, data: DataMode, fsck_too: bool) -> Tree {
    let store = Arc::new(RamStore::from_bytes(image));
    let (engine, vol) = mounted(store.clone(), data);
    vol.inode_ops().process_orphans().expect("orphans");
    let found = tree(&vol);
    if fsck_too {
        unmount(&*engine, &vol, store.clone());
        fsck(&store.to_bytes());
    }
    found
}

fn with_data_journal_a_transaction_is_there_whole_or_not_at_all() {
    let base = base();
    let (states, events) = record(&base, DataMode::Journal);
    let (mut crashes, mut found) = (0, BTreeSet::new());
    each_crash(&base, &events, |image, durable| {
        crashes += 1;
        let tree = recovered(image, DataMode::Journal, crashes % 50 == 0);
        let n = states.iter().position(|state| *state == tree);
        let n = n.unwrap_or_else(|| panic!("crash {crashes}: a part of a transaction after {durable}"));
        assert!(n as u64 >= durable, "crash {crashes}: {n} transactions, although {durable} were durable");
        found.insert(n);
    });
    assert!(crashes > 300, "only {crashes} crashes");
    // The second was never synced alone.
    assert_eq!(found, BTreeSet::from([0, 1, 3]));
}

/// The same tree with the bytes gone that were written over stored ones, which need not wait for the transaction.
fn without_overwritten(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    if let Some(seen) = tree.get_mut("/overwritten") {
        seen.content[300..2300].fill(0);
    }
    tree
}

fn with_data_ordered_all_but_overwritten_bytes_is_there_whole_or_not_at_all() {
    let base = base();
    let (states, events) = record(&base, DataMode::Ordered);
    let states: Vec<Tree> = states.iter().map(without_overwritten).collect();
    let (mut crashes, mut found) = (0, BTreeSet::new());
    each_crash(&base, &events, |image, durable| {
        crashes += 1;
        let tree = recovered(image, DataMode::Ordered, crashes % 50 == 0);
        let written = &tree["/overwritten"].content[300..2300];
        assert!(written.iter().all(|b| *b <= 3), "crash {crashes}: bytes that nobody wrote there");
        let n = states.iter().position(|state| *state == without_overwritten(&tree));
        let n = n.unwrap_or_else(|| panic!("crash {crashes}: a part of a transaction after {durable}"));
        assert!(n as u64 >= durable, "crash {crashes}: {n} transactions, although {durable} were durable");
        found.insert(n);
    });
    assert!(crashes > 300, "only {crashes} crashes");
    assert_eq!(found, BTreeSet::from([0, 1, 3]));
}

/// Big victims and open files become orphans with the transaction that takes their names, and not without it.
fn victims_are_deleted_with_the_transaction_or_keep_their_names() {
    for features in ["^orphan_file", "orphan_file"] {
        let mut base = mkfs("6M", &["-b", "1024", "-J", "size=1", "-N", "32", "-O", features], 2);
        let rig = mount(base);
        let (big, opened) = (find(&rig.vol, "/f0"), find(&rig.vol, "/f1"));
        // Many extents: their tree has blocks of its own.
        (0..40).for_each(|i| assert_eq!(rig.vol.files().write(big, i * 4096, &[1; 100]).expect("a write"), 100));
        rig.vol.files().write(opened, 0, &[2; 3000]).expect("a write");
        base = rig.unmount_checked();
        let domain = PowerDomain::new();
        let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
        let (engine, vol) = mounted(store, DataMode::Ordered);
        let before = tree(&vol);
        vol.inode_ops().open(opened).expect("an open file");
        apply(&vol, &[remove_file("/f0"), create("/new"), rename("/new", "/f1"), create("/f0")]);
        let after = tree(&vol);
        vol.sync().expect("a sync");
        domain.mark(1);
        vol.inode_ops().release(opened).expect("the last close");
        engine.checkpoint_all().expect("a checkpoint");
        let mut crashes = 0;
        each_crash(&base, &domain.take(), |image, durable| {
            crashes += 1;
            let tree = recovered(image, DataMode::Ordered, crashes % 40 == 0);
            assert!(tree == after || (tree == before && durable == 0), "crash {crashes}, {durable} durable");
        });
        assert!(crashes > 100, "only {crashes} crashes");
    }
}
