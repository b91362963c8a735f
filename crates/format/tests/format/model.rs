//! Changes in place against plain models of what they change.

use ondol_format::bitmap;
use ondol_format::dirent::{self, DirBlock, DirBlockMut, Dots};
use ondol_format::htree::{DxBlock, DxBlockMut, DxEntry};
use ondol_format::inode::{InodeFlags, InodeFormat};
use ondol_format::time::{MAX_SEC, MIN_SEC};
use ondol_format::xattr::{self, Xattr};
use ondol_format::{Inode, Place, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Change {
    Insert(usize, u32),
    Remove(usize),
    Point(usize, u32),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0usize..60, 1u32..1000).prop_map(|(name, ino)| Change::Insert(name, ino)),
        2 => (0usize..60).prop_map(Change::Remove),
        1 => (0usize..60, 1u32..1000).prop_map(|(name, ino)| Change::Point(name, ino)),
    ]
}

fn name(i: usize) -> Vec<u8> {
    format!("{i}{}", "-".repeat(i * 3 % 100)).into_bytes()
}

fn format() -> InodeFormat {
    InodeFormat {
        inode_size: 256,
        block_size: 4096,
        huge_file: true,
        bit64: true,
        large_dir: false,
        csum_seed: Some(9),
    }
}

fn time() -> impl Strategy<Value = Time> {
    (MIN_SEC..=MAX_SEC, 0u32..1_000_000_000).prop_map(|(sec, nsec)| Time { sec, nsec })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn directory_blocks(changes in prop::collection::vec(change(), 1..80), csum: bool) {
        let mut bytes = vec![0; 1024];
        DirBlockMut::init_dot_dotdot(&mut bytes, Dots { ino: 12, parent: 2, filetype: true }, csum, Place::NONE);
        let mut model: BTreeMap<Vec<u8>, u32> = BTreeMap::from([(b".".to_vec(), 12), (b"..".to_vec(), 2)]);
        for change in changes {
            let before = bytes.clone();
            let dir = DirBlock::new(&before, csum, Place::NONE).unwrap();
            let (Change::Insert(i, _) | Change::Remove(i) | Change::Point(i, _)) = change;
            let seen = dir.search(&name(i)).unwrap();
            let found = seen.entry.map(|entry| entry.offset);
            prop_assert_eq!(found.is_some(), model.contains_key(&name(i)));
            let edit = match (change, found) {
                (Change::Insert(i, ino), None) => match seen.gap {
                    Some(gap) => {
                        model.insert(name(i), ino);
                        let edit = dir.insertion(gap, &name(i), ino, 1).unwrap();
                        let mut block = DirBlockMut::new(&mut bytes, csum, Place::NONE).unwrap();
                        prop_assert!(block.insert(&name(i), ino, 1).unwrap());
                        Some(edit)
                    }
                    None => {
                        let used: usize = model.keys().map(|name| dirent::rec_len_for(name.len())).sum();
                        prop_assert!(used + 12 + dirent::rec_len_for(name(i).len()) > 400, "{used} bytes used");
                        let mut whole = DirBlockMut::new(&mut bytes, csum, Place::NONE).unwrap();
                        prop_assert!(!whole.insert(&name(i), ino, 1).unwrap());
                        None
                    }
                },
                (Change::Remove(i), Some(offset)) => {
                    model.remove(&name(i));
                    prop_assert!(seen.before.is_none() || dir.removal(None, offset).is_err());
                    prop_assert!(dir.removal(Some(offset), offset).is_err());
                    Some(dir.removal(seen.before, offset).unwrap())
                }
                (Change::Point(i, ino), Some(offset)) => {
                    model.insert(name(i), ino);
                    Some(dir.redirection(offset, ino, 1).unwrap())
                }
                _ => None,
            };
            let changed = edit.as_ref().map_or(0..0, |edit| edit.at..edit.at + edit.bytes.len());
            edit.iter().for_each(|edit| edit.apply(&mut bytes));
            // Nothing changed outside the bytes that were named.
            prop_assert_eq!(&before[..changed.start], &bytes[..changed.start]);
            prop_assert_eq!(&before[changed.end..], &bytes[changed.end..]);
            let view = DirBlock::new(&bytes, csum, Place::NONE).unwrap();
            let read: BTreeMap<_, _> = view.used().map(|e| e.unwrap()).map(|e| (e.name.to_vec(), e.ino)).collect();
            prop_assert_eq!(&read, &model);
            let covered: usize = view.entries().map(|entry| entry.unwrap().rec_len).sum();
            prop_assert_eq!(covered, view.end());
        }
    }

    #[test]
    fn directory_blocks_filled_at_once(names in prop::collection::btree_set(0usize..60, 0..30), csum: bool) {
        let mut bytes = vec![7; 1024];
        let mut dir = DirBlockMut::init_empty(&mut bytes, csum, Place::NONE);
        let names: Vec<Vec<u8>> = names.into_iter().map(name).collect();
        let room = 1024 - if csum { dirent::TAIL } else { 0 };
        let need: usize = names.iter().map(|name| dirent::rec_len_for(name.len())).sum();
        let filled = dir.fill(names.iter().map(|name| (name.as_slice(), 5, 1)));
        prop_assert_eq!(filled.is_ok(), need <= room);
        let view = DirBlock::new(&bytes, csum, Place::NONE).unwrap();
        let read: Vec<Vec<u8>> = view.used().map(|entry| entry.unwrap().name.to_vec()).collect();
        prop_assert_eq!(read, if filled.is_ok() { names } else { Vec::new() });
    }

    #[test]
    fn htree_entries(hashes in prop::collection::btree_set(1u32..u32::MAX, 1..120), at in 1usize..60, probe: u32) {
        let mut bytes = vec![0; 1024];
        let mut dx = DxBlockMut::init_node(&mut bytes, 1, true);
        let mut model = vec![DxEntry { hash: 0, block: 1 }];
        for (i, hash) in hashes.into_iter().enumerate() {
            let entry = DxEntry { hash, block: i as u32 + 2 };
            prop_assert_eq!(dx.insert(model.len(), entry), model.len() < dx.limit());
            model.push(entry);
            model.truncate(dx.limit());
        }
        let mut more = vec![0; 1024];
        let mut other = DxBlockMut::init_node(&mut more, 0, true);
        let moved = dx.split_off(at, &mut other);
        prop_assert_eq!(moved.is_some(), at < model.len());
        let view = DxBlock::node(&bytes, true, Place::NONE).unwrap();
        let mut all: Vec<DxEntry> = view.entries().collect();
        if let Some(first) = moved {
            let rest = DxBlock::node(&more, true, Place::NONE).unwrap();
            all.extend(rest.entries().enumerate().map(|(i, e)| if i == 0 { DxEntry { hash: first, ..e } } else { e }));
        }
        prop_assert_eq!(&all, &model);
        let expected = all[..view.count()].iter().skip(1).filter(|entry| entry.hash <= probe).count();
        prop_assert_eq!(view.search(probe), expected);
    }

    #[test]
    fn attributes_round_trip(
        list in prop::collection::btree_map((1u8..8, "[a-z]{1,20}"), prop::collection::vec(any::<u8>(), 0..60), 0..12),
    ) {
        let list: Vec<Xattr> = list.into_iter().map(|((i, name), value)| Xattr::new(i, name, value)).collect();
        let plain = |list: &[Xattr]| {
            let mut all: Vec<_> = list.iter().map(|x| (x.name_index, x.name.clone(), x.value.clone())).collect();
            all.sort();
            all
        };
        let mut block = vec![0xff; 1024];
        prop_assert_eq!(xattr::write_block(&list, 3, &mut block).is_ok(), xattr::block_fits(&list, 1024));
        if xattr::block_fits(&list, 1024) {
            let read = xattr::parse_block(&block, Place::NONE).unwrap();
            prop_assert_eq!(plain(&read), plain(&list));
            prop_assert_eq!(xattr::refcount(&block, Place::NONE).unwrap(), 3);
            let order: Vec<_> = read.iter().map(|x| (x.name_index, x.name.len(), x.name.clone())).collect();
            prop_assert!(order.is_sorted());
        }
        let mut tail = vec![0xff; 96];
        prop_assert_eq!(xattr::write_inode(&list, &mut tail).is_ok(), xattr::inode_fits(&list, 96));
        if xattr::inode_fits(&list, 96) {
            prop_assert_eq!(plain(&xattr::parse_inode(&tail, Place::NONE).unwrap()), plain(&list));
        }
    }

    #[test]
    fn inodes_round_trip(
        (mode, uid, gid, links) in any::<(u16, u32, u32, u16)>(),
        (size, blocks, generation, version) in (any::<u64>(), 0u64..1 << 50, any::<u32>(), any::<u64>()),
        times in prop::array::uniform4(time()),
        file_acl in 0u64..1 << 48,
        flags: u32,
    ) {
        let format = format();
        let mut inode = Inode::new(32, &format);
        (inode.mode, inode.uid, inode.gid, inode.links) = (mode, uid, gid, links);
        inode.size = if inode.is_regular() { size } else { size & 0xffff_ffff };
        (inode.generation, inode.version, inode.file_acl) = (generation, version, file_acl);
        [inode.atime, inode.ctime, inode.mtime, inode.crtime] = times;
        inode.blocks = blocks & !7;
        inode.flags = InodeFlags::from_bits_retain(flags);
        inode.flags.set(InodeFlags::HUGE_FILE, flags & 1 == 0 || inode.blocks >= 1 << 48);
        inode.project = uid ^ gid;
        std::sync::Arc::make_mut(&mut inode.tail)[5] = 9;
        let mut bytes = vec![0; 256];
        inode.write(&mut bytes, &format).unwrap();
        prop_assert_eq!(Inode::parse(&bytes, 12, &format).unwrap(), inode);
        ondol_format::inode::seal(&mut bytes, 12, &format);
        ondol_format::inode::verify(&bytes, 12, &format).unwrap();
        prop_assert!(ondol_format::inode::verify(&bytes, 13, &format).is_err());
    }

    #[test]
    fn bitmaps(len in 1usize..40, ranges in prop::collection::vec((0usize..330, 0usize..330, any::<bool>()), 0..12)) {
        let mut map = vec![0u8; len];
        let mut model = vec![false; len * 8];
        for (start, count, on) in ranges {
            if on { bitmap::set_range(&mut map, start, count) } else { bitmap::clear_range(&mut map, start, count) }
            for bit in model.iter_mut().skip(start).take(count) {
                *bit = on;
            }
        }
        let bits = model.len();
        for (n, bit) in model.iter().enumerate() {
            prop_assert_eq!(bitmap::test(&map, n), *bit);
        }
        for start in [0, 1, bits / 3, bits - 1] {
            let run = (0..=start).rev().take_while(|n| !model[*n]).last();
            prop_assert_eq!(bitmap::zero_run_start(&map, start), run.unwrap_or(start));
            for end in [bits, bits.saturating_sub(3), bits + 100] {
                let find = |on: bool| (start..end.min(bits)).find(|n| model[*n] == on);
                prop_assert_eq!(bitmap::find_next_zero(&map, start, end), find(false));
                prop_assert_eq!(bitmap::find_next_one(&map, start, end), find(true));
                let ones = model[..end.min(bits)].iter().filter(|bit| **bit).count();
                prop_assert_eq!(bitmap::count_ones(&map, end), ones);
                prop_assert_eq!(bitmap::count_zeros(&map, end), end.min(bits) - ones);
                let is_free = |n: &usize| *n + 5 <= end.min(bits) && !model[*n..*n + 5].contains(&true);
                let run = (start..end.min(bits)).find(is_free);
                prop_assert_eq!(bitmap::find_zero_run(&map, start, end, 5), run);
            }
        }
        prop_assert_eq!(bitmap::zero_run_start(&map, map.len() * 8), map.len() * 8);
        prop_assert!(bitmap::test(&map, bits));
        prop_assert!(bitmap::set(&mut map, bits));
        let was = bitmap::set(&mut map, bits / 2);
        prop_assert_eq!(was, model[bits / 2]);
        prop_assert!(bitmap::clear(&mut map, bits / 2));
        prop_assert!(!bitmap::test(&map, bits / 2));
        bitmap::pad(&mut map, bits / 2 + 1);
        prop_assert!(bitmap::is_padded(&map, bits / 2 + 1) && !bitmap::is_padded(&map, bits / 2));
    }
}
