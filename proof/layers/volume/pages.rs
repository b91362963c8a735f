//! What is told of a file to somebody who has pages of it, and may have changed them.

use crate::file_util::{Rig, mkfs, mount};
use ondol_testkit::over_setups;
use ondol_volume::{Caller, Error, Fallocate, Ino, ROOT, Seek, SetAttr};

over_setups! {
    holes_that_were_given_away_count_as_data_and_space,
    edges_of_holes_stay_in_pages,
    a_new_size_leaves_out_what_is_late,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn known(rig: &Rig, name: &[u8], size: u64) -> Ino {
    let ino = rig.vol.names().create(ROOT, name, 0o644, USER).unwrap().ino;
    rig.vol.inode_ops().looked_up(ino);
    rig.vol.files().truncate(ino, size).unwrap();
    ino
}

/// Where data and the hole behind it are found.
fn found(rig: &Rig, ino: Ino, from: u64) -> Option<(u64, u64)> {
    match rig.vol.files().seek_pages(ino, from, Seek::Data) {
        Ok(data) => Some((data, rig.vol.files().seek_pages(ino, data, Seek::Hole).unwrap())),
        Err(Error::PastEnd) => None,
        Err(e) => panic!("{e}"),
    }
}

fn holes_that_were_given_away_count_as_data_and_space() {
    for block_size in ["1024", "4096"] {
        let rig = mount(mkfs("16M", &["-b", block_size], 0));
        let (vol, mut page) = (&rig.vol, [7; 4096]);
        let ino = known(&rig, b"f", 100_000);
        let told = || vol.getattr(ino).unwrap().blocks;
        let whole = 100_000_u64.next_multiple_of(block_size.parse().unwrap()) / 512;
        assert_eq!((found(&rig, ino, 0), told()), (None, 0));
        assert_eq!(vol.page_cache().read_pages(ino, 8192, &mut page).unwrap(), (4096, true));
        assert!(page == [0; 4096]);
        assert_eq!((found(&rig, ino, 0), told()), (Some((8192, 12_288)), 8));
        assert_eq!((found(&rig, ino, 9000), found(&rig, ino, 12_288)), (Some((9000, 12_288)), None));
        // What is stored is there by itself; twice makes no more than there is.
        vol.files().write(ino, 12_288, &[1; 4096]).unwrap();
        for _ in 0..3 {
            vol.page_cache().read_pages(ino, 8192, &mut page).unwrap();
        }
        assert_eq!((found(&rig, ino, 0), told()), (Some((8192, 16_384)), 16));
        vol.page_cache().read_pages(ino, 50_000 - 50_000 % 4096, &mut page).unwrap();
        let end = (50_000 - 50_000 % 4096) + 4096;
        assert_eq!(found(&rig, ino, 10), Some((8192, end)));
        assert_eq!(vol.files().seek_pages(ino, end, Seek::Hole).unwrap(), end);
        // To the end, which may be anywhere in its page.
        assert_eq!(vol.page_cache().read_pages(ino, 98_304, &mut page).unwrap(), (1696, true));
        assert_eq!(found(&rig, ino, 10), Some((8192, 100_000)));
        let mut all = vec![0; 110_000];
        vol.page_cache().read_pages(ino, 0, &mut all).unwrap();
        assert_eq!(vol.page_cache().read_pages(ino, 0, &mut all).unwrap(), (100_000, false));
        assert_eq!((found(&rig, ino, 0), told()), (Some((0, 100_000)), whole));
        // Who has no pages is told what is stored, and so are all when nobody has.
        assert_eq!(vol.files().seek(ino, 0, Seek::Data).unwrap(), 12_288);
        vol.inode_ops().forget(ino, 1).unwrap();
        assert_eq!((found(&rig, ino, 0), told()), (Some((12_288, 16_384)), 8));
        // Nobody was told of this one.
        vol.page_cache().read_pages(ino, 0, &mut all).unwrap();
        assert_eq!(found(&rig, ino, 0), Some((12_288, 16_384)));
        // Who collects writes may have some of any file.
        vol.page_cache().writes_are_collected();
        let empty = vol.names().create(ROOT, b"empty", 0o644, USER).unwrap();
        assert!(empty.blocks > 0 && told() == 8);
        rig.unmount_checked();
    }
}

fn edges_of_holes_stay_in_pages() {
    for (block_size, edges) in [("1024", Some((5120, 16_384))), ("4096", Some((12_288, 16_384)))] {
        let rig = mount(mkfs("16M", &["-b", block_size], 0));
        for (n, how) in [Fallocate::PunchHole, Fallocate::ZeroRangeKeepSize].into_iter().enumerate() {
            let ino = known(&rig, format!("f{n}").as_bytes(), 0);
            rig.vol.files().write(ino, 0, &[1; 16_384]).unwrap();
            rig.vol.files().fallocate(ino, how, 5120, 6144).unwrap();
            let next = rig.vol.files().seek(ino, 5120, Seek::Hole).unwrap();
            assert!(block_size == "4096" || next == 5120, "{how:?} {next}");
            let data = found(&rig, ino, if block_size == "4096" { 12_288 } else { 5120 });
            assert_eq!(data, edges, "{how:?}");
        }
        rig.unmount_checked();
    }
}

fn a_new_size_leaves_out_what_is_late() {
    let rig = mount(mkfs("16M", &["-b", "4096"], 0));
    let (vol, mut page) = (&rig.vol, [0; 4096]);
    let ino = known(&rig, b"f", 0);
    let resize = |size| vol.inode_ops().setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
    vol.files().write(ino, 0, &[1; 5000]).unwrap();
    assert_eq!(vol.page_cache().end_in_pages(ino), None);
    resize(6000);
    assert_eq!(vol.page_cache().late_in(ino, &(0..6000)), None, "nobody has the page");
    vol.page_cache().read_pages(ino, 4096, &mut page).unwrap();
    assert_eq!(vol.page_cache().end_in_pages(ino), Some(6000));
    resize(6000);
    assert_eq!(vol.page_cache().end_in_pages(ino), Some(6000), "no new size");
    resize(20_000);
    assert_eq!(vol.page_cache().end_in_pages(ino), None);
    assert_eq!(vol.page_cache().late_in(ino, &(8192..20_000)), None);
    assert_eq!(vol.page_cache().late_in(ino, &(0..20_000)), Some(6000..8192));
    assert_eq!(vol.page_cache().late_in(ino, &(0..20_000)), None, "once");
    vol.page_cache().read_pages(ino, 16_384, &mut page).unwrap();
    vol.page_cache().end_leaves_pages(ino);
    assert_eq!(vol.page_cache().end_in_pages(ino), None);
    vol.page_cache().read_pages(ino, 16_384, &mut page).unwrap();
    vol.page_cache().writes_are_collected();
    resize(30_000);
    assert_eq!(vol.page_cache().late_in(ino, &(0..30_000)), None, "pages are written that were never read");
    rig.unmount_checked();
}
