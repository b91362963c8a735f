//! Batches: collected changes of files, made as one: on every kind of mapping, by one operation and by an exchange.

use crate::file_util::{Random, Rig, mkfs, mount};
use ondol_testkit::over_setups;
use ondol_volume::{Batch, Caller, Error, Fallocate, Ino, ROOT, SetAttr};

over_setups! {
    batches_of_files_with_extents,
    batches_of_files_in_clusters,
    batches_of_files_with_block_maps,
    batches_of_contents_of_inodes,
    batches_of_several_files,
    what_is_no_batch_is_refused,
    what_a_large_batch_cuts_off_is_nowhere,
    a_large_batch_keeps_to_the_largest_size,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn file(rig: &Rig, name: &[u8]) -> Ino {
    rig.vol.names().create(ROOT, name, 0o644, USER).unwrap().ino
}

/// Changes of a file that holds `content`, made to both.
fn change(random: &mut Random, batch: &mut Batch, content: &mut Vec<u8>, most: u64, is_large: bool) {
    for _ in 0..2 + random.below(if is_large { 60 } else { 4 }) {
        let at = random.below(most);
        if random.below(if is_large { 60 } else { 6 }) == 0 {
            batch.set_len(at);
            content.resize(at as usize, 0);
            continue;
        }
        let len = if is_large { 20_000 + random.below(60_000) } else { 1 + random.below(3000) };
        let bytes = random.bytes(len.min(most - at) as usize);
        batch.write(at, &bytes).unwrap();
        let end = at as usize + bytes.len();
        content.resize(content.len().max(end), 0);
        content[at as usize..end].copy_from_slice(&bytes);
    }
}

/// Changes what lies around the batches: holes, unwritten blocks, sizes.
fn stir(rig: &Rig, random: &mut Random, ino: Ino, content: &mut Vec<u8>, most: u64) {
    let (at, len) = (random.below(most), 1 + random.below(9000));
    match random.below(3) {
        0 => {
            let size = content.len() as u64;
            let punched = rig.vol.files().fallocate(ino, Fallocate::PunchHole, at, len).is_ok();
            let hole = (at.min(size) as usize)..((at + len).min(size) as usize);
            content[hole].iter_mut().filter(|_| punched).for_each(|byte| *byte = 0);
        }
        1 => {
            // What is allocated behind the end is no matter.
            let _may_not_be = rig.vol.files().fallocate(ino, Fallocate::KeepSize, at, len);
        }
        _ => {
            rig.vol.inode_ops().setattr(ino, &SetAttr { size: Some(at), ..SetAttr::default() }).unwrap();
            content.resize(at as usize, 0);
        }
    }
}

/// How many batches were larger than one operation takes and are made; how many of them were refused.
fn run(rig: Rig, most: u64) -> (usize, usize) {
    let (ino, mut random, mut content) = (file(&rig, b"a"), Random(17), Vec::new());
    let (mut large, mut refused) = (0, 0);
    for n in 0..60 {
        stir(&rig, &mut random, ino, &mut content, most);
        let (mut batch, mut changed) = (Batch::new(ino), content.clone());
        change(&mut random, &mut batch, &mut changed, most, n % 3 == 0);
        let mut seen = vec![7; changed.len() + 10];
        assert_eq!(rig.vol.ranges().read_with(&batch, 0, &mut seen).unwrap(), changed.len());
        assert!(seen[..changed.len()] == changed, "batch {n}");
        assert_eq!(rig.vol.ranges().len_with(&batch).unwrap(), changed.len() as u64);
        let (from, mut few) = (random.below(most), [7; 500]);
        let got = rig.vol.ranges().read_with(&batch, from, &mut few).unwrap();
        assert!(few[..got] == changed[(from as usize).min(changed.len())..][..got], "batch {n}");
        assert!(rig.read_all(ino) == content, "nothing has changed yet");
        let is_large = batch.bytes() > rig.vol.files().atomic_bytes();
        match rig.vol.ranges().apply_batches(&[&batch]) {
            // Of a block map, what one operation takes.
            Err(Error::TooBig { .. }) => refused += 1,
            done => {
                done.unwrap();
                content = changed;
                large += usize::from(is_large);
            }
        }
        assert!(rig.read_all(ino) == content, "batch {n}");
    }
    rig.unmount_checked();
    (large, refused)
}

fn batches_of_files_with_extents() {
    let (large, refused) = run(mount(mkfs("32M", &["-b", "1024"], 0)), 3 << 20);
    assert!(large > 0 && refused == 0, "{large}, {refused}");
}

fn batches_of_files_in_clusters() {
    let image = mkfs("32M", &["-b", "1024", "-O", "bigalloc", "-C", "8192", "-m", "0"], 0);
    let (large, refused) = run(mount(image), 3 << 20);
    assert!(large > 0 && refused == 0, "{large}, {refused}");
}

fn batches_of_files_with_block_maps() {
    run(mount(mkfs("32M", &["-b", "1024", "-O", "^extent,^64bit"], 0)), 300_000);
}

fn batches_of_contents_of_inodes() {
    run(mount(mkfs("32M", &["-b", "1024", "-O", "inline_data"], 0)), 200);
    run(mount(mkfs("32M", &["-b", "1024", "-O", "inline_data"], 0)), 300_000);
}

fn batches_of_several_files() {
    let rig = mount(mkfs("32M", &["-b", "1024"], 0));
    let (mut random, inos) = (Random(3), [file(&rig, b"a"), file(&rig, b"b"), file(&rig, b"c")]);
    let mut contents = vec![Vec::new(); 3];
    for n in 0..40 {
        let mut batches: Vec<Batch> = inos.iter().map(|ino| Batch::new(*ino)).collect();
        for (batch, content) in batches.iter_mut().zip(&mut contents) {
            change(&mut random, batch, content, 100_000, false);
        }
        rig.vol.ranges().apply_batches(&[&batches[2], &batches[0], &batches[1]]).unwrap();
        for (ino, content) in inos.iter().zip(&contents) {
            assert!(rig.read_all(*ino) == *content, "round {n}");
        }
    }
    rig.unmount_checked();
}

fn what_is_no_batch_is_refused() {
    let rig = mount(mkfs("32M", &["-b", "1024"], 0));
    let (v, ino, other) = (&rig.vol, file(&rig, b"a"), file(&rig, b"b"));
    v.files().write(ino, 0, &[1; 5000]).unwrap();
    let of = |ino: Ino, len: usize| {
        let mut batch = Batch::new(ino);
        batch.write(3, &vec![2; len]).unwrap();
        batch
    };
    let (one, two) = (of(ino, 9), of(ino, 8));
    assert!(matches!(v.ranges().apply_batches(&[&one, &two]), Err(Error::Invalid(_))));
    assert!(matches!(v.ranges().apply_batches(&[&of(ROOT, 5)]), Err(Error::IsDirectory(_))));
    // Of two files, more than one operation takes.
    let (one, two) = (of(ino, 9), of(other, 20 << 20));
    assert!(matches!(v.ranges().apply_batches(&[&one, &two]), Err(Error::TooBig { .. })));
    let mut far = of(ino, 9);
    far.write(u64::MAX / 2, &[1]).unwrap();
    assert!(matches!(v.ranges().apply_batches(&[&far]), Err(Error::FileTooBig)));
    v.ranges().apply_batches(&[&Batch::new(ino), &Batch::new(ino)]).unwrap();
    assert_eq!((rig.read_all(ino), rig.read_all(other)), (vec![1; 5000], vec![]));
    rig.unmount_checked();
}

/// A file of 8 MiB, and a batch over it that is larger than one operation takes.
fn large(rig: &Rig, at: u64) -> (Ino, Batch) {
    let ino = file(rig, b"a");
    for n in 0..8 {
        rig.vol.files().write(ino, n << 20, &vec![0xAA; 1 << 20]).unwrap();
    }
    let mut batch = Batch::new(ino);
    batch.write(at, &vec![0x55; 5 << 20]).unwrap();
    assert!(batch.bytes() > rig.vol.files().atomic_bytes());
    (ino, batch)
}

/// The new end lies in a unit of allocation in which nothing is written: what was behind it there is neither in the
/// file's blocks nor in the rest of the last one.
fn what_a_large_batch_cuts_off_is_nowhere() {
    const SIZE: usize = (6 << 20) + 1000;
    for clusters in [&["-b", "1024"][..], &["-b", "1024", "-O", "bigalloc", "-C", "8192", "-m", "0"]] {
        let rig = mount(mkfs("32M", clusters, 0));
        let (ino, mut batch) = large(&rig, 0);
        batch.set_len(SIZE as u64);
        rig.vol.ranges().apply_batches(&[&batch]).unwrap();
        let mut content = vec![0x55; 5 << 20];
        content.resize(SIZE, 0xAA);
        assert!(rig.read_all(ino) == content);
        let all = rig.vol.files().extents(ino, 0, u64::MAX).unwrap();
        let last = all.last().unwrap();
        assert!(last.logical + last.len >= SIZE as u64 && last.logical + last.len < SIZE as u64 + 1024, "{last:?}");
        let end = (last.physical + SIZE as u64 - last.logical) as usize;
        let image = rig.unmount_checked();
        assert_eq!(image[end - 4..][..28], [[0xAA; 4].as_slice(), &[0; 24]].concat());
    }
}

/// Without `large_file`, that is 2 GiB, whatever the batch is made by.
fn a_large_batch_keeps_to_the_largest_size() {
    let rig = mount(mkfs("32M", &["-b", "1024", "-O", "^large_file"], 0));
    let (ino, mut batch) = large(&rig, 1 << 20);
    batch.set_len(3 << 30);
    assert!(matches!(rig.vol.ranges().apply_batches(&[&batch]), Err(Error::FileTooBig)));
    assert!(rig.read_all(ino) == vec![0xAA; 8 << 20]);
    rig.unmount_checked();
}
