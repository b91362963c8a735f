//! Several changes of one file in one transaction, around all thresholds: later bytes lie over earlier ones, whichever
//! way each of them goes to the medium.

use crate::file_util::{Random, Rig, mkfs, mount};
use crate::transaction_util::{apply, find, set_len, write_at};
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use ondol_testkit::thresholds;
use ondol_volume::Step;

over_setups! {
    a_short_change_of_a_long_overwrite,
    a_long_overwrite_of_a_short_change,
    what_is_cut_off_between_overwrites_is_zeros,
    changes_at_thresholds,
}

/// What the file should hold after the steps.
fn model(steps: &[Step], mut content: Vec<u8>) -> Vec<u8> {
    for step in steps {
        match step {
            Step::WriteAt { offset, bytes, .. } => {
                let (from, end) = (*offset as usize, *offset as usize + bytes.len());
                content.resize(content.len().max(end), 0);
                content[from..end].copy_from_slice(bytes);
            }
            Step::SetLen { size, .. } => content.resize(*size as usize, 0),
            other => panic!("{other:?}"),
        }
    }
    content
}

/// A file of these bytes that is home and in no cache.
fn stored(args: &[&str], content: &[u8]) -> Rig {
    let rig = mount(mkfs("32M", args, 1));
    let ino = find(&rig.vol, "/f0");
    assert_eq!(rig.vol.files().write(ino, 0, content).unwrap(), content.len());
    mount(rig.unmount())
}

fn same(rig: &Rig, want: &[u8], what: &str) {
    let is = rig.read_all(find(&rig.vol, "/f0"));
    assert_eq!(is.len(), want.len(), "{what}");
    let wrong: Vec<usize> = (0..is.len()).filter(|&i| is[i] != want[i]).collect();
    assert!(wrong.is_empty(), "{what}: {} bytes differ, from {} on", wrong.len(), wrong[0]);
}

/// Does the steps in one transaction; they are to be seen at once, and after everything has been home.
fn check(args: &[&str], before: Vec<u8>, steps: &[Step]) {
    let rig = stored(args, &before);
    apply(&rig.vol, steps);
    let want = model(steps, before);
    let what = format!("{:?}, {args:?}", Setup::current());
    same(&rig, &want, &format!("{what}, live"));
    let rig = mount(rig.unmount_checked());
    same(&rig, &want, &format!("{what}, from home"));
}

const BLOCKS: [&[&str]; 3] =
    [&["-b", "1024", "-J", "size=8"], &["-b", "2048", "-J", "size=8"], &["-b", "4096", "-J", "size=8"]];

fn a_short_change_of_a_long_overwrite() {
    for args in BLOCKS {
        check(args, vec![b'A'; 200_000], &[write_at("/f0", 0, &[b'B'; 100_001]), set_len("/f0", 100_001)]);
        let short =
            [write_at("/f0", 10, &[b'B'; 100_001]), write_at("/f0", 50_000, b"short"), write_at("/f0", 9, b"edge")];
        check(args, vec![b'A'; 200_000], &short);
    }
}

fn a_long_overwrite_of_a_short_change() {
    for args in BLOCKS {
        let steps =
            [write_at("/f0", 50_000, b"short"), write_at("/f0", 7, &[b'B'; 100_001]), write_at("/f0", 50_002, b"x")];
        check(args, vec![b'A'; 200_000], &steps);
    }
}

fn what_is_cut_off_between_overwrites_is_zeros() {
    for args in BLOCKS {
        let long = write_at("/f0", 0, &[b'B'; 100_001]);
        let again = write_at("/f0", 30_000, &[b'C'; 70_000]);
        check(args, vec![b'A'; 200_000], &[long.clone(), set_len("/f0", 5001), set_len("/f0", 150_000), again.clone()]);
        check(args, vec![b'A'; 200_000], &[set_len("/f0", 5001), long.clone(), again, long]);
    }
}

fn changes_at_thresholds() {
    let sizes = thresholds::bytes(300_000);
    let mut random = Random(11);
    for case in 0..20 {
        let size = |random: &mut Random| sizes[random.below(sizes.len() as u64) as usize];
        let len = size(&mut random) as usize;
        let before = random.bytes(len);
        let steps: Vec<Step> = (0..2 + random.below(4))
            .map(|_| match random.below(4) {
                0 => set_len("/f0", size(&mut random)),
                _ => {
                    let (at, len) = (size(&mut random) - 1, size(&mut random));
                    let bytes = random.bytes(len as usize);
                    write_at("/f0", if random.below(2) == 0 { 0 } else { at }, &bytes)
                }
            })
            .collect();
        check(BLOCKS[case % BLOCKS.len()], before, &steps);
    }
}
