//! The mappings of a process come to their end: a test binary of its own, since all others of one share them.

use ondol::{FormatOptions, Map, OpenOptions, Volume};

const BLOCK: usize = 4096;

/// More ranges than the process may have mappings: a copy, which is right.
#[test]
fn a_file_in_too_many_pieces_is_copied() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let pool = format!("nvm:{}", dir.path().join("pool").display());
    Volume::format(&pool, &FormatOptions::new().size(16 << 20)).unwrap();
    let volume = Volume::open(&pool).unwrap();
    let whole: Vec<u8> = (0..400 * BLOCK).map(|n| (n / BLOCK) as u8).collect();
    let open = |path| OpenOptions::new().read(true).write(true).create(true).open(&volume, path).unwrap();
    let (file, beside) = (open("/a"), open("/b"));
    for (at, block) in (0..).step_by(BLOCK).zip(whole.chunks(BLOCK)) {
        file.write_all_at(block, at).unwrap();
        beside.write_all_at(block, at).unwrap();
    }
    let maps: Vec<Map> = (0..200).map(|_| file.map().unwrap()).collect();
    assert!(maps.iter().all(|map| map[..] == whole[..]));
    let copied = maps.iter().filter(|map| map.is_copied()).count();
    assert!(copied > 0 && copied < 200, "{copied} of 200 maps are copies");
    // One that goes makes room.
    drop(maps);
    assert!(!file.map().unwrap().is_copied());
    drop((file, beside));
    volume.close().unwrap();
}
