//! Transactions do what their steps would do one after the other, or nothing.

use crate::file_util::{Random, mkfs, mount, mount_with};
use crate::transaction_util::*;
use ondol_testkit::over_setups;
use ondol_volume::{Error, Rename, SetXattr, Step, VolumeOptions};
use std::mem::discriminant;

over_setups! {
    all_steps_at_once_are_all_steps_in_order,
    a_step_that_fails_anywhere_leaves_nothing,
    random_transactions_against_their_steps,
    a_read_only_volume_refuses_and_nothing_is_nothing,
    a_directory_that_was_only_passed_may_be_changed_under_another_name,
}

/// Files and directories to work on.
fn furnish(vol: &ondol_volume::Volume) {
    apply(vol, &[create_dir("/a"), create_dir("/a/b"), create_dir("/full"), create("/full/x"), create("/f")]);
    apply(vol, &[write_at("/f", 0, &[1; 5000]), write_at("/full/x", 3000, &[2; 3000])]);
    apply(vol, &[set_xattr("/f", "user.k", b"v"), set_xattr("/f", "user.long", &[3; 600])]);
}

/// Steps of every kind, many of which need what earlier ones have done.
fn good_steps() -> Vec<Step> {
    let mut steps = vec![
        create_dir("/a/b/c"),
        create("/a/b/c/new"),
        append("/a/b/c/new", &[7; 2500]),
        write_at("/a/b/c/new", 1000, &[8; 3000]),
        rename("/a/b/c", "/moved"),
        set_len("/moved/new", 3500),
        write_at("/f", 100, &[9; 1200]),
        write_at("/f", 9000, &[10; 10]),
        set_len("/f", 4000),
        Step::HardLink { original: trail("/moved/new"), at: trail("/a/second") },
        Step::Symlink { at: trail("/a/short"), target: b"x".to_vec() },
        Step::Symlink { at: trail("/a/long"), target: vec![b'y'; 200] },
        Step::SetPermissions { at: trail("/a"), perm: 0o700 },
        set_xattr("/moved/new", "user.added", &[4; 900]),
        Step::RemoveXattr { at: trail("/f"), name: b"user.k".to_vec() },
        Step::Rename { from: trail("/moved/new"), to: trail("/f"), how: Rename::Exchange },
        Step::Rename { from: trail("/a/b"), to: trail("/moved/b"), how: Rename::NoReplace },
        remove_file("/full/x"),
        remove_dir("/full"),
        create("/full"),
        append("/full", b"a file now"),
        rename("/full", "/moved/new"),
        create("/gone"),
        write_at("/gone", 0, &[5; 4000]),
        remove_file("/gone"),
        create_dir("/gone"),
        remove_dir("/gone"),
    ];
    steps.extend(replace("/f", b"all of it"));
    steps
}

fn all_steps_at_once_are_all_steps_in_order() {
    for block in ["1024", "4096"] {
        let image = mkfs("16M", &["-b", block, "-J", "size=4"], 0);
        let (once, each) = (mount(image.clone()), mount(image));
        furnish(&once.vol);
        furnish(&each.vol);
        let handles = once.engine.stats().handles;
        apply(&once.vol, &good_steps());
        assert_eq!(once.engine.stats().handles, handles + 1, "one operation");
        for step in &good_steps() {
            alone(&each.vol, step).unwrap_or_else(|e| panic!("{step:?}: {e}"));
        }
        assert_eq!(tree(&once.vol), tree(&each.vol), "blocks of {block}");
        let (one, other) = (once.vol.statfs(), each.vol.statfs());
        assert_eq!((one.free, one.files_free), (other.free, other.files_free), "blocks of {block}");
        let expected = tree(&once.vol);
        let again = mount(once.unmount_checked());
        assert_eq!(tree(&again.vol), expected);
    }
}

/// Steps that are refused whatever precedes them among the good ones, and why.
fn bad_steps() -> Vec<(Step, Error)> {
    vec![
        (remove_file("/nothing/there"), Error::NotFound),
        (create_dir("/a"), Error::Exists),
        (remove_dir("/"), Error::Invalid("")),
        (remove_dir("/a"), Error::NotEmpty(0)),
        (rename("/a", "/a/inner"), Error::Invalid("")),
        (write_at("/a", 0, b"x"), Error::IsDirectory(0)),
        (write_at("/a", u64::MAX - 1, b"xyz"), Error::IsDirectory(0)),
        (Step::RemoveXattr { at: trail("/a"), name: b"user.none".to_vec() }, Error::NoAttribute),
        (
            Step::SetXattr { at: trail("/a"), name: b"user.none".to_vec(), value: vec![], how: SetXattr::Replace },
            Error::NoAttribute,
        ),
        (create(&format!("/{}", "n".repeat(256))), Error::NameTooLong),
        (create("/f/below"), Error::NotDirectory(0)),
        (create("/a/."), Error::Invalid("")),
        (Step::Symlink { at: trail("/s"), target: vec![] }, Error::NotFound),
        (Step::Symlink { at: trail("/s"), target: vec![b'x'; 5000] }, Error::NameTooLong),
    ]
}

fn a_step_that_fails_anywhere_leaves_nothing() {
    let rig = mount(mkfs("16M", &["-b", "1024", "-J", "size=4"], 0));
    furnish(&rig.vol);
    let good = good_steps();
    for (bad, why) in bad_steps() {
        for at in 0..=good.len() {
            let mut steps = good.clone();
            steps.insert(at, bad.clone());
            let e = refused(&rig.vol, &steps);
            assert_eq!(e.step, Some(at), "{bad:?}: {e}");
            assert_eq!(discriminant(&e.error), discriminant(&why), "{bad:?} at {at}: {e}");
        }
    }
    assert!(rig.vol.inode_ops().orphans_empty().expect("an answer"));
    // None of it was spoilt by the attempts.
    apply(&rig.vol, &good);
    rig.unmount_checked();
}

/// A random step over few names, so that steps often meet.
fn random_step(random: &mut Random) -> Step {
    let path = |random: &mut Random| {
        let names = (0..1 + random.below(3)).map(|_| ["a", "b", "c"][random.below(3) as usize]);
        trail(&names.collect::<Vec<_>>().join("/"))
    };
    let at = path(random);
    match random.below(16) {
        0 | 1 => Step::Create { at, perm: 0o640, keep: random.below(2) == 0 },
        2..=4 => Step::CreateDir { at, perm: 0o750 },
        5 => {
            let target = vec![b't'; 1 + random.below(100) as usize];
            Step::Symlink { at, target }
        }
        6 => Step::HardLink { original: path(random), at },
        7 | 8 => {
            let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange][random.below(3) as usize];
            Step::Rename { from: at, to: path(random), how }
        }
        9 => Step::RemoveFile { at },
        10 => Step::RemoveDir { at },
        11 => {
            let len = random.below(6000) as usize;
            Step::WriteAt { at, offset: random.below(20_000), bytes: random.bytes(len) }
        }
        12 => Step::Append { at, bytes: random.bytes(700) },
        13 => Step::SetLen { at, size: random.below(20_000) },
        14 => {
            let len = 1 + random.below(700) as usize;
            Step::SetXattr { at, name: b"user.r".to_vec(), value: random.bytes(len), how: SetXattr::Any }
        }
        _ => Step::SetPermissions { at, perm: random.below(0o1000) as u16 },
    }
}

/// Random transactions, each compared with its steps done one after the other; those that must fail leave all as it is.
fn random_transactions_against_their_steps() {
    for seed in [1, 2] {
        let mut random = Random(seed);
        let mut image = mkfs("8M", &["-b", "1024", "-J", "size=1"], 0);
        let rig = mount(image.clone());
        let (mut done, mut refusals) = (0, 0);
        for _ in 0..300 {
            let each = mount(image.clone());
            let (mut steps, mut failing) = (Vec::new(), None);
            for _ in 0..2 + random.below(12) {
                let step = random_step(&mut random);
                match alone(&each.vol, &step) {
                    Ok(()) => steps.push(step),
                    // Most steps that cannot be done are left out.
                    Err(why) if random.below(12) == 0 => {
                        failing = Some((steps.len(), why));
                        steps.push(step);
                        break;
                    }
                    Err(_) => {}
                }
            }
            match failing {
                None => {
                    apply(&rig.vol, &steps);
                    assert_eq!(tree(&rig.vol), tree(&each.vol), "{steps:?}");
                    image = each.unmount();
                    done += 1;
                }
                Some((at, why)) => {
                    let e = refused(&rig.vol, &steps);
                    assert_eq!(
                        (e.step, discriminant(&e.error)),
                        (Some(at), discriminant(&why)),
                        "{e}, {why}: {steps:?}"
                    );
                    refusals += 1;
                }
            }
        }
        assert!(done > 100 && refusals > 50, "{done} done, {refusals} refused");
        rig.unmount_checked();
    }
}

fn a_read_only_volume_refuses_and_nothing_is_nothing() {
    let image = mkfs("8M", &["-b", "1024"], 1);
    let rig = mount_with(image, VolumeOptions { read_only: true, ..VolumeOptions::default() });
    apply(&rig.vol, &[]);
    let e = refused(&rig.vol, &[create("/x")]);
    assert!(matches!(e.error, Error::ReadOnly(_)), "{e}");
}

fn a_directory_that_was_only_passed_may_be_changed_under_another_name() {
    let rig = mount(mkfs("8M", &["-b", "1024"], 0));
    apply(&rig.vol, &[create_dir("/a"), create_dir("/a/b"), create("/a/b/f")]);
    apply(&rig.vol, &[append("/a/b/f", b"x"), rename("/a", "/z"), create("/z/b/new"), remove_file("/z/b/f")]);
    assert_eq!(tree(&rig.vol).into_keys().filter(|name| name.starts_with("/z/b/")).collect::<Vec<_>>(), ["/z/b/new"]);
    rig.unmount_checked();
}
