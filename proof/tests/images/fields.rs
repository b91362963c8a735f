//! Every number of a superblock, a group descriptor and a journal's superblock, made hostile, under checksums that are
//! right: whatever reads it answers or refuses, and nothing panics, overflows or goes on for ever.

use ondol::{Options, Volume};
use ondol_block::{BlockStore, OverlayStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::group::DescCsum;
use ondol_format::superblock::{OFFSET, SIZE};
use ondol_format::{RawSuperblock, Superblock};
use ondol_testkit::image::{self, Spec};
use ondol_volume::Image;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerocopy::{FromBytes, IntoBytes};

/// Small, with many groups, in the shapes that compute differently.
fn specs() -> [Spec; 3] {
    [
        Spec::new(6 << 20, 1024).journal(1).with("-N 256 -g 1024"),
        Spec::new(6 << 20, 1024).journal(1).with("-N 256 -g 1024 -O ^metadata_csum,^64bit,meta_bg,^resize_inode"),
        Spec::new(16 << 20, 1024).journal(2).with("-N 256 -O bigalloc -C 4096"),
    ]
}

/// The values that a word of so many bytes is given.
fn hostile(width: usize) -> [u64; 5] {
    let most = u64::MAX >> (64 - 8 * width);
    [0, 1, most, most - 1, most / 2 + 1]
}

/// A volume with a file and a directory.
fn filled(spec: &Spec) -> (Arc<dyn BlockStore>, Superblock) {
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.create_dir("/d").expect("mkdir");
    volume.write("/d/f", vec![5; 50_000]).expect("write");
    volume.close().expect("close");
    let sb = Image::open(store.clone()).expect("an image").superblock().clone();
    (store, sb)
}

/// Everything that looks at an image, and what writes a little to it. Whether it could be opened at all.
fn all_look(store: &Arc<dyn BlockStore>) -> bool {
    let over = || -> Arc<dyn BlockStore> { Arc::new(OverlayStore::new(store.clone())) };
    let _ = ondol::check_media(over());
    let Ok(image) = Image::open(over()) else { return false };
    let _ = image.least_blocks(image::clock(1));
    let _ = ondol::recover_media(over());
    for options in ["ro", "ro,norecovery", "rw"] {
        let options = Options::parse(options).expect("options");
        let Ok(volume) = Volume::open_stepped(over(), &options, image::clock(1)) else { continue };
        let _ = volume.info();
        let _ = volume.statfs();
        let _ = volume.read("/d/f");
        if let Ok(entries) = volume.read_dir("/") {
            entries.for_each(drop);
        }
        let _ = volume.write("/new", vec![1; 9_000]);
        let _ = volume.create_dir("/e");
        let _ = volume.remove_file("/d/f");
        let _ = volume.close();
    }
    true
}

/// Has all look at `store` with each word of `bytes`, which lie at `offset`, made hostile, as `order` writes it, and
/// `sealed`.
fn each_word(
    store: &Arc<dyn BlockStore>,
    offset: u64,
    bytes: &[u8],
    order: fn(u64) -> [u8; 8],
    sealed: impl Fn(&mut [u8]),
) -> usize {
    let mut opened = 0;
    for width in [2, 4] {
        for at in (0..bytes.len()).step_by(width) {
            for value in hostile(width) {
                let mut changed = bytes.to_vec();
                let word = order(value).into_iter().skip(if order(1)[0] == 1 { 0 } else { 8 - width });
                changed[at..at + width].iter_mut().zip(word).for_each(|(byte, to)| *byte = to);
                sealed(&mut changed);
                let over: Arc<dyn BlockStore> = Arc::new(OverlayStore::new(store.clone()));
                over.write(offset, &changed).expect("write");
                let looked = catch_unwind(AssertUnwindSafe(|| all_look(&over)));
                opened += usize::from(looked.unwrap_or_else(|_| panic!("{value:#x} in {width} bytes at {at:#x}")));
            }
        }
    }
    opened
}

#[test]
fn no_number_of_a_superblock_is_too_much() {
    for spec in specs() {
        let (store, sb) = filled(&spec);
        let opened = each_word(&store, OFFSET, sb.raw().as_bytes(), u64::to_le_bytes, |bytes| {
            let mut raw = RawSuperblock::read_from_bytes(&bytes[..SIZE]).expect("a superblock");
            raw.seal();
            bytes.copy_from_slice(raw.as_bytes());
        });
        assert!(opened > 1000, "{opened}: hardly one could be opened");
    }
}

#[test]
fn no_number_of_a_group_descriptor_is_too_much() {
    for spec in specs() {
        let (store, sb) = filled(&spec);
        for g in [0, sb.groups() - 1] {
            let (block, offset) = sb.gdt().location(g);
            let offset = block * u64::from(sb.block_size()) + offset as u64;
            let mut bytes = vec![0; sb.gdt().desc_size().into()];
            store.read(offset, &mut bytes).expect("read");
            each_word(&store, offset, &bytes, u64::to_le_bytes, |bytes| DescCsum::of(&sb).seal(g, bytes));
        }
    }
}

#[test]
fn no_number_of_a_journal_is_too_much() {
    // As mke2fs makes it: without checksums.
    let store: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(specs()[0].make().expect("mke2fs")));
    let block = Image::open(store.clone()).expect("an image").journal_map().expect("a journal")[0].0;
    let mut bytes = vec![0; 0x60];
    store.read(block * 1024, &mut bytes).expect("read");
    assert!(each_word(&store, block * 1024, &bytes, u64::to_be_bytes, |_| ()) > 100);
}
