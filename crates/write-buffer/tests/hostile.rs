//! Pools with bytes that nobody wrote: recovery answers, and what it brings home is what was written, or it says what
//! is missing.

mod common;

use common::memory::MemoryHome;
use common::{BLOCK, Op, Plain, Rig, id, names, open, shape};
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, Nvm, Pool};
use ondol_write_buffer::{BufferError, Damage, Identity, OnDamage, recover};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Files = BTreeMap<Identity, Vec<u8>>;

/// Operations after which everything is still in NVM alone.
fn ops() -> Vec<Op> {
    let write = |file, offset, len| Op::Write { file, offset, len };
    vec![
        write(0, 0, 100),
        write(0, 50, 30),
        write(1, 0, 512),
        write(1, 600, 700),
        Op::SetLen { file: 1, len: 900 },
        write(0, 512, 512),
        write(2, 40, 60),
        write(0, 300, 50),
        write(1, 10, 20),
        write(2, 10, 20),
    ]
}

/// The pool, the files that it stands for, and those without the newest operation on one of them.
fn scene() -> (Vec<u8>, Files, Vec<Files>) {
    let mut rig = Rig::new(16);
    for op in ops() {
        rig.apply(&op);
    }
    let file_of = |op: &Op| match op {
        Op::Write { file, .. } | Op::SetLen { file, .. } => *file,
        _ => 0,
    };
    let without_newest = (0..3).map(|file| {
        let newest = ops().iter().rposition(|op| file_of(op) == file).unwrap();
        let mut plain = Plain::default();
        for (i, op) in ops().iter().enumerate() {
            match (i == newest, op) {
                (true, Op::Write { .. }) => plain.writes += 1,
                _ => plain.apply(op),
            }
        }
        plain.files
    });
    (rig.pool.nvm().to_bytes().unwrap(), rig.plain.files.clone(), without_newest.collect())
}

fn recovered(bytes: &[u8], on_damage: OnDamage) -> Result<(Files, ondol_write_buffer::Report), BufferError> {
    let pool = Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap();
    let home = MemoryHome::new();
    let report = recover(&pool, &home, on_damage)?;
    let empty = pool.nvm().to_bytes().unwrap();
    let again = Pool::open(Nvm::from_bytes(&empty).unwrap()).unwrap();
    assert_eq!(recover(&again, &home, OnDamage::Refuse).unwrap(), ondol_write_buffer::Report::default());
    Ok((home.all(), report))
}

/// Where the buffer's areas lie in the pool.
fn areas(bytes: &[u8]) -> [ondol_medium::Area; 2] {
    let pool = Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap();
    [AreaKind::BUFFER_TABLES, AreaKind::BUFFER_DATA].map(|kind| pool.area(kind).unwrap())
}

#[test]
fn untouched_it_is_what_was_written() {
    let (bytes, files, _) = scene();
    let (found, report) = recovered(&bytes, OnDamage::Refuse).unwrap();
    assert_eq!((found, report.damage, report.torn, report.unreadable_lines), (files, Vec::new(), 0, 0));
}

/// One bit of each byte that is not zero: the answer is right, or says what cannot be read, or is without the newest
/// operation on one file (of which nobody can tell whether it had returned).
#[test]
fn no_flipped_bit_is_believed() {
    let (bytes, files, without_newest) = scene();
    let (mut refused, mut right, mut shorter, mut lines) = (0, 0, 0, 0);
    for area in areas(&bytes) {
        for at in area.start as usize..(area.start + area.len) as usize {
            if bytes[at] == 0 && at % 16 != 3 {
                continue;
            }
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            match recovered(&bad, OnDamage::Refuse) {
                Err(BufferError::Damaged { damage, .. }) => {
                    assert!(!damage.is_empty());
                    refused += 1;
                    // Going on brings the rest home: each byte is one that was written there, or zero.
                    let (found, report) = recovered(&bad, OnDamage::GoOn).unwrap();
                    assert_eq!(report.damage, damage);
                    assert!(found.keys().all(|name| names().contains(name)), "{found:?}");
                }
                Err(other) => panic!("byte {at}: {other}"),
                Ok((found, _)) if found == files => right += 1,
                Ok((found, report)) if report.unreadable_lines > 0 => {
                    lines += 1;
                    assert!(found.iter().all(|(name, b)| b.len() <= files[name].len()));
                }
                Ok((found, _)) if without_newest.contains(&found) => shorter += 1,
                Ok((found, report)) => {
                    let lens: Vec<usize> = found.values().map(Vec::len).collect();
                    panic!("byte {at}: {report:?}, files of {lens:?} bytes")
                }
            }
        }
    }
    println!("{refused} refused, {right} right, {shorter} without the newest, {lines} with an unreadable line");
    assert!(refused > 500 && right > 100 && shorter > 100, "{refused} {right} {shorter} {lines}");
}

/// A lost line is as bad as a flipped bit, and no worse.
#[test]
fn lost_lines_are_named() {
    let (bytes, files, _) = scene();
    let mut refused = 0;
    for area in areas(&bytes) {
        for line in (area.start..area.start + area.len).step_by(64) {
            let pool = Pool::open(Nvm::from_bytes(&bytes).unwrap()).unwrap();
            pool.nvm().poison().add_line(line);
            let home = MemoryHome::new();
            match recover(&pool, &home, OnDamage::Refuse) {
                Ok(_) => assert!(home.all().iter().all(|(name, b)| b.len() <= files[name].len())),
                Err(BufferError::Damaged { .. }) => refused += 1,
                Err(other) => panic!("line {line}: {other}"),
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn damage_is_named() {
    let (bytes, files, _) = scene();
    let [tables, data] = areas(&bytes).map(|area| area.start as usize);
    let damage = |at: usize| {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        match recovered(&bad, OnDamage::Refuse) {
            Err(BufferError::Damaged { damage, .. }) => damage,
            other => panic!("{other:?}"),
        }
    };
    // The second block that was taken has what the third operation wrote to the second file.
    let birch = (0..16).map(|n| data + n * BLOCK as usize).find(|at| bytes[*at..][..512] == files[&id("birch")][..512]);
    let whole = (0..16).map(|n| data + n * BLOCK as usize).find(|at| bytes[*at] == bytes[*at + 31] && bytes[*at] != 0);
    assert!(birch.is_none() && whole.is_some(), "its first bytes were overwritten by a fragment");
    let record = damage(whole.unwrap() + 200);
    let of_birch = |d: &Damage| matches!(d, Damage::Record { file, sequence: 1, .. } if *file == id("birch"));
    assert!(record.len() == 2 && record.iter().all(of_birch), "before and behind the fragment over it: {record:?}");
    assert!(record[0].to_string().contains("of birch"), "{}", record[0]);
    let slot = damage(tables + 8192 + 3);
    assert!(matches!(slot[..], [Damage::Slot { slot: 0, what: "its state word" }]), "{slot:?}");
    let synced = damage(tables + 8192 + 512 + 9);
    assert!(matches!(synced[..], [Damage::Slot { slot: 1, what: "its synced word" }]), "{synced:?}");
    let name = damage(tables + 8192 + 80);
    assert!(matches!(name[..], [Damage::Slot { slot: 0, what: "its identity" }]), "{name:?}");
    let fragment = damage(data + 5);
    assert!(matches!(fragment[..], [Damage::Fragments { block: 0, at: 0 }]), "{fragment:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Whatever the areas hold, there is an answer, and it is the same again.
    #[test]
    fn any_bytes_are_an_answer(
        changes in proptest::collection::vec((0usize..1 << 20, proptest::collection::vec(any::<u8>(), 1..80)), 1..12),
        go_on in any::<bool>(),
    ) {
        let (mut bytes, _, _) = scene();
        let [tables, data] = areas(&bytes);
        let end = (data.start + data.len) as usize;
        for (at, new) in changes {
            let at = tables.start as usize + at % (end - tables.start as usize);
            let len = new.len().min(end - at);
            bytes[at..at + len].copy_from_slice(&new[..len]);
        }
        let on_damage = if go_on { OnDamage::GoOn } else { OnDamage::Refuse };
        match (recovered(&bytes, on_damage), recovered(&bytes, on_damage)) {
            (Ok(a), Ok(b)) => prop_assert_eq!(a, b),
            (Err(a), Err(b)) => prop_assert_eq!(a.to_string(), b.to_string()),
            (a, b) => prop_assert!(false, "{:?} {:?}", a, b),
        }
    }
}

#[test]
fn a_scene_of_this_shape_is_all_in_nvm() {
    let (bytes, files, _) = scene();
    assert_eq!((files.len(), bytes.len() as u64), (3, common::medium_size(shape(), 16)));
    let pool = Pool::open(Nvm::from_bytes(&bytes).unwrap()).unwrap();
    let home = Arc::new(MemoryHome::new());
    let (_, report) = open(&pool, home.clone());
    assert_eq!((report.files, home.all()), (3, files));
}
