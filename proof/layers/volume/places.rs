//! Where inodes, directories and files lie, and what need not be read for them.

use crate::file_util::{Rig, mkfs, mount};
use ondol_block::BlockStore;
use ondol_testkit::over_engines;
use ondol_testkit::rig::Setup;
use ondol_volume::{Caller, Ino, ROOT};
use std::collections::BTreeSet;

over_engines! {
    what_belongs_together_lies_together,
    so_it_does_in_clusters,
    inode_tables_that_nobody_uses_are_not_read,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
/// Eight groups of 8,192 blocks of 1 KiB, with 1,024 inodes each, of which a block has four.
const ARGS: &[&str] = &["-b", "1024", "-I", "256", "-N", "8192", "-J", "size=2"];
const GROUP: u64 = 8192 << 10;

fn mkdir(rig: &Rig, parent: Ino, name: &str) -> Ino {
    rig.vol.names().mkdir(parent, name.as_bytes(), 0o755, USER).unwrap().ino
}

fn create(rig: &Rig, dir: Ino, name: &str, len: usize) -> Ino {
    let ino = rig.vol.names().create(dir, name.as_bytes(), 0o644, USER).unwrap().ino;
    rig.vol.files().write(ino, 0, &vec![7; len]).unwrap();
    ino
}

fn groups(rig: &Rig, inos: &[Ino]) -> BTreeSet<u64> {
    let extents = inos.iter().flat_map(|ino| rig.vol.files().extents(*ino, 0, u64::MAX).unwrap());
    extents.map(|extent| (extent.physical - 1024) / GROUP).collect()
}

fn what_belongs_together_lies_together() {
    lies_together(mkfs("64M", ARGS, 0));
}

fn so_it_does_in_clusters() {
    let args = [ARGS, &["-O", "bigalloc", "-C", "2048"]].concat();
    lies_together(mkfs("128M", &args, 0));
}

fn lies_together(image: Vec<u8>) {
    let rig = mount(image);
    let tree = |name: &str, dirs: usize| -> Vec<Ino> {
        let top = mkdir(&rig, ROOT, name);
        let fill = |n: usize| {
            let dir = mkdir(&rig, top, &n.to_string());
            ["a", "b", "c"].map(|name| create(&rig, dir, name, 3000))
        };
        (0..dirs).flat_map(fill).collect()
    };
    let (one, other) = (tree("one", 40), tree("other", 40));
    let (one, other) = (groups(&rig, &one), groups(&rig, &other));
    assert_eq!((one.len(), other.len()), (1, 1), "{one:?}, {other:?}");
    assert_ne!(one, other, "trees at the top are apart");
    // What is large does not crowd one group.
    let large = groups(&rig, &tree("large", 150));
    assert!((2..=4).contains(&large.len()), "{large:?}");
    rig.unmount_checked();
}

fn inode_tables_that_nobody_uses_are_not_read() {
    let args = [ARGS, &["-O", "metadata_csum"]].concat();
    let rig = mount(mkfs("64M", &args, 0));
    let reads = |rig: &Rig, from: usize| {
        let before = rig.store.stats().reads;
        for n in from..from + 400 {
            create(rig, ROOT, &n.to_string(), 10);
        }
        rig.store.stats().reads - before
    };
    // Of 100 blocks of the table none, and of bitmaps those that there are. A log of changed bytes needs what they
    // change.
    let setup = Setup::current();
    let table = if setup.has_pool() && !setup.lies_in_pool() { 100 } else { 0 };
    let first = reads(&rig, 0);
    assert!(first <= table + 40, "{first} reads for 400 new files");
    (0..400).filter(|n| *n != 205).for_each(|n| rig.vol.names().unlink(ROOT, n.to_string().as_bytes()).unwrap());
    let rig = mount(rig.unmount_checked());
    let again = reads(&rig, 1000);
    assert!(again <= table + 60, "{again} reads for 400 files in place of others");
    let kept = rig.vol.names().lookup(ROOT, b"205").unwrap().ino;
    let mut bytes = [0; 20];
    assert_eq!((rig.vol.files().read(kept, 0, &mut bytes).unwrap(), bytes[..10].to_vec()), (10, vec![7; 10]));
    rig.unmount_checked();
}
