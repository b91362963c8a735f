//! Where inodes, directories and files lie, and what need not be read for them.

use crate::file_util::{Rig, mkfs, mount};
use ondol_block::BlockStore;
use ondol_testkit::over_engines;
use ondol_volume::{Caller, Ino, ROOT};
use std::collections::BTreeSet;

over_engines! {
    what_belongs_together_lies_together,
    inode_tables_that_nobody_uses_are_not_read,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// Eight groups of 8,192 blocks of 1 KiB, with 1,024 inodes each, of which a block has four.
const ARGS: &[&str] = &["-b", "1024", "-I", "256", "-N", "8192", "-J", "size=2"];
const GROUP: u64 = 8192 << 10;

fn mkdir(rig: &Rig, parent: Ino, name: &str) -> Ino {
    rig.vol.mkdir(parent, name.as_bytes(), 0o755, USER).unwrap().ino
}

fn create(rig: &Rig, dir: Ino, name: &str, len: usize) -> Ino {
    let ino = rig.vol.create(dir, name.as_bytes(), 0o644, USER).unwrap().ino;
    rig.vol.write(ino, 0, &vec![7; len]).unwrap();
    ino
}

fn groups(rig: &Rig, inos: &[Ino]) -> BTreeSet<u64> {
    let extents = inos.iter().flat_map(|ino| rig.vol.extents(*ino, 0, u64::MAX).unwrap());
    extents.map(|extent| (extent.physical - 1024) / GROUP).collect()
}

fn what_belongs_together_lies_together() {
    let rig = mount(mkfs("64M", ARGS, 0));
    let tree = |name: &str, dirs: usize| -> Vec<Ino> {
        let top = mkdir(&rig, ROOT, name);
        let dirs: Vec<Ino> = (0..dirs).map(|n| mkdir(&rig, top, &n.to_string())).collect();
        dirs.into_iter()
            .flat_map(|dir| (0..3).map(move |n| (dir, n)))
            .map(|(dir, n)| create(&rig, dir, &n.to_string(), 3000))
            .collect()
    };
    let (one, other) = (tree("one", 40), tree("other", 40));
    let (one, other) = (groups(&rig, &one), groups(&rig, &other));
    assert_eq!((one.len(), other.len()), (1, 1), "{one:?}, {other:?}");
    assert_ne!(one, other, "trees at the top are apart");
    // What is large does not crowd one group.
    let large = groups(&rig, &tree("large", 600));
    assert!((2..=5).contains(&large.len()), "{large:?}");
    rig.unmount_checked();
}

fn inode_tables_that_nobody_uses_are_not_read() {
    let rig = mount(mkfs("64M", ARGS, 0));
    let reads = |rig: &Rig, from: usize| {
        let before = rig.store.stats().reads;
        for n in from..from + 400 {
            create(rig, ROOT, &n.to_string(), 10);
        }
        rig.store.stats().reads - before
    };
    // Of 100 blocks of the table none, and of bitmaps those that there are.
    let first = reads(&rig, 0);
    assert!(first <= 40, "{first} reads for 400 new files");
    (0..400).filter(|n| *n != 205).for_each(|n| rig.vol.unlink(ROOT, n.to_string().as_bytes()).unwrap());
    let rig = mount(rig.unmount_checked());
    let again = reads(&rig, 1000);
    assert!(again <= 60, "{again} reads for 400 files in place of others");
    let kept = rig.vol.lookup(ROOT, b"205").unwrap().ino;
    let mut bytes = [0; 20];
    assert_eq!((rig.vol.read(kept, 0, &mut bytes).unwrap(), bytes[..10].to_vec()), (10, vec![7; 10]));
    rig.unmount_checked();
}
