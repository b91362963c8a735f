//! Pools: made, attached, refused by name, and crashed.

mod common;

use common::{SIZE, UUID, VOLUME, bytes, explore, pool, record, reopen, spec};
use ondol_medium::{AreaKind, Domain, Header, HeaderFault, Nvm, NvmOptions, Pool, PoolError, PoolSpec, inspect};
use ondol_power::{Event, PowerDomain};
use std::path::PathBuf;

#[test]
fn a_pool_is_what_it_was_made_as() {
    let made = pool();
    let opened = reopen(&bytes(&made)).unwrap();
    let header = opened.header();
    assert_eq!(header, made.header());
    assert_eq!((header.uuid, header.size, header.epoch, header.volume), (UUID, SIZE, 0, None));
    let log = opened.area(AreaKind::JOURNAL_LOG).unwrap();
    let data = opened.area(AreaKind::PAGE_DATA).unwrap();
    assert_eq!((log.start, log.len, data.start, data.len), (8192, 4096, 12288, 8192));
    assert_eq!(opened.area(AreaKind::PAGE_MAP), None);
    assert_eq!(opened.mended(), None);
}

#[test]
fn attaching_raises_the_epoch_and_detaching_keeps_it() {
    let mut pool = pool();
    assert_eq!(pool.attach(VOLUME).unwrap(), 1);
    let mut pool = reopen(&bytes(&pool)).unwrap();
    assert_eq!((pool.header().epoch, pool.header().volume), (1, Some(VOLUME)));
    assert_eq!(pool.attach(VOLUME).unwrap(), 2);
    let error = pool.attach([1; 16]).unwrap_err();
    assert!(error.to_string().contains("766f6c75-6d65-2d76-6f6c-756d652d766f"), "{error}");
    pool.detach().unwrap();
    let mut pool = reopen(&bytes(&pool)).unwrap();
    assert_eq!((pool.header().epoch, pool.header().volume), (2, None));
    assert_eq!(pool.attach([1; 16]).unwrap(), 3);
}

#[test]
fn areas_are_allotted_where_there_is_room() {
    let mut pool = pool();
    let map = pool.allot(AreaKind::PAGE_MAP, 1).unwrap();
    assert_eq!((map.start, map.len), (20480, 4096));
    let error = pool.allot(AreaKind::PAGE_LOG, 8193).unwrap_err();
    assert!(error.to_string().contains("no room for an area page-log of 8193 bytes"), "{error}");
    pool.allot(AreaKind::PAGE_LOG, 8192).unwrap();
    assert!(pool.allot(AreaKind(99), 1).unwrap_err().to_string().contains("kind-99"));
    assert!(pool.allot(AreaKind(99), u64::MAX).is_err());
    assert_eq!(reopen(&bytes(&pool)).unwrap().header().areas, pool.header().areas);
}

#[test]
fn what_is_no_pool_of_ours_is_refused_by_name() {
    let refusal = |bytes: &[u8]| reopen(bytes).unwrap_err().to_string();
    assert!(refusal(&[0; 32768]).contains("memory is no pool"));
    assert!(refusal(&[7; 4096]).contains("no signature at byte 0 or 4096"));
    let mut pool = pool();
    pool.attach(VOLUME).unwrap();
    let whole = bytes(&pool);
    assert!(refusal(&whole[..16384]).contains("truncated: the pool has 32768 bytes, the medium 16384"));
    let mut newer = whole.clone();
    for copy in [0, 4096] {
        newer[copy + 8] = 2;
    }
    let text = refusal(&newer);
    assert!(text.contains("damaged") && text.contains("byte 4096: checksum"), "a version that nobody sealed: {text}");
}

#[test]
fn one_bad_header_is_mended_from_the_other_and_two_are_refused() {
    let mut pool = pool();
    pool.attach(VOLUME).unwrap();
    let good = bytes(&pool);
    for copy in [0, 4096] {
        let mut bad = good.clone();
        bad[copy + 50] ^= 1;
        let opened = reopen(&bad).unwrap();
        assert!(matches!(opened.mended(), Some(HeaderFault::Checksum { .. })));
        assert_eq!(bytes(&opened), good, "mended");
        assert_eq!(opened.header(), pool.header());

        let lost = Nvm::from_bytes(&good).unwrap();
        lost.poison().add_line(copy as u64 + 64);
        let opened = Pool::open(lost).unwrap();
        assert_eq!(opened.mended(), Some(&HeaderFault::Lost(copy as u64 + 64)));
        assert_eq!(bytes(&opened), good, "mended");
    }
    let lost = Nvm::from_bytes(&good).unwrap();
    lost.poison().add_line(0);
    lost.poison().add_line(8000);
    let text = Pool::open(lost).unwrap_err().to_string();
    assert!(text.contains("byte 0: the line at byte 0 is lost") && text.contains("byte 8000 is lost"), "{text}");
    let mut foreign = good.clone();
    let other = Pool::create(Nvm::volatile(SIZE).unwrap(), &PoolSpec { uuid: [2; 16], ..spec() }).unwrap();
    foreign[..4096].copy_from_slice(&bytes(&other)[..4096]);
    foreign[4096..8192].copy_from_slice(&bytes(&self::pool())[..4096]);
    assert!(reopen(&foreign).unwrap_err().to_string().contains("one generation and differ"));
}

#[test]
fn one_whole_header_is_enough_for_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut pool = pool();
    pool.attach(VOLUME).unwrap();
    for copy in [0, 4096] {
        let mut bad = bytes(&pool);
        bad[copy + 20] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        let options = NvmOptions { access: ondol_medium::Access::Read, ..NvmOptions::default() };
        let opened = Pool::open(Nvm::open(&path, &options).unwrap()).unwrap();
        assert_eq!((opened.header(), opened.mended()), (pool.header(), None));
        drop(opened);
        assert!(std::fs::read(&path).unwrap() == bad, "nothing is written");
        let mended = Pool::open(Nvm::open(&path, &NvmOptions::default()).unwrap()).unwrap();
        assert!(mended.mended().is_some());
    }
}

#[test]
fn nothing_is_made_over_something_else() {
    let holds = |bytes: &[u8]| Pool::create(Nvm::from_bytes(bytes).unwrap(), &spec()).unwrap_err().to_string();
    let mut image = vec![0; SIZE as usize];
    image[1080] = 0x53;
    assert!(holds(&image).contains("memory is not empty"));
    assert!(holds(&bytes(&pool())).contains("not empty"));
    let forced = Pool::create(Nvm::from_bytes(&image).unwrap(), &PoolSpec { force: true, ..spec() }).unwrap();
    assert_eq!(reopen(&bytes(&forced)).unwrap().header(), forced.header());
    let too_big = PoolSpec { size: SIZE + 4096, ..spec() };
    assert!(matches!(Pool::create(Nvm::volatile(SIZE).unwrap(), &too_big), Err(PoolError::Size { .. })));
    let full = PoolSpec { areas: vec![(AreaKind::PAGE_DATA, SIZE)], ..spec() };
    assert!(matches!(Pool::create(Nvm::volatile(SIZE).unwrap(), &full), Err(PoolError::Areas { .. })));
}

#[test]
fn a_pool_remembers_the_domain_that_was_chosen_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("pool");
    let nvm = Nvm::create(&path, SIZE, &NvmOptions::default()).unwrap();
    drop(Pool::create(nvm, &PoolSpec { domain: Domain::Volatile, ..spec() }).unwrap());
    let found = |domain| {
        let options = NvmOptions { domain, ..NvmOptions::default() };
        Pool::open(Nvm::open(&path, &options).unwrap()).unwrap().nvm().domain()
    };
    assert_eq!(found(Domain::Auto), Domain::Volatile);
    assert_eq!(found(Domain::Msync), Domain::Msync);
    let held = Pool::open(Nvm::open(&path, &NvmOptions::default()).unwrap()).unwrap();
    let error = Nvm::open(&path, &NvmOptions::default()).unwrap_err().to_string();
    assert!(error.contains("pool is in use"), "{error}");
    drop(held);
}

#[test]
fn attaching_survives_every_cut_and_a_cut_of_its_recovery() {
    let before = pool();
    let base = bytes(&before);
    let events = record(&base, |nvm| {
        let mut pool = Pool::open(nvm).unwrap();
        assert_eq!(pool.attach(VOLUME).unwrap(), 1);
    });
    assert_eq!(events.iter().filter(|e| matches!(e, Event::Fence { .. })).count(), 2);
    let mut seen = std::collections::BTreeSet::new();
    let states = explore(&base, &events, |state, _| {
        let mut found = None;
        let recovery = record(state, |nvm| found = Some(Pool::open(nvm).unwrap().header().clone()));
        let found = found.unwrap();
        seen.insert((found.epoch, found.volume));
        let Header { generation, epoch, volume, .. } = found;
        assert_eq!(found, Header { generation, epoch, volume, ..before.header().clone() });
        explore(state, &recovery, |again, _| {
            assert_eq!(reopen(again).unwrap().header(), &found, "a second recovery finds the same");
        });
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(0, None), (1, Some(VOLUME))]);
    assert!(states > 30, "{states}");
}

#[test]
fn what_attach_has_returned_is_durable() {
    let base = bytes(&pool());
    let power = PowerDomain::new();
    let mut pool = Pool::open(Nvm::from_bytes(&base).unwrap().record(power.clone(), 0)).unwrap();
    for epoch in 1..=3 {
        assert_eq!(pool.attach(VOLUME).unwrap(), epoch);
        power.mark(epoch);
    }
    pool.detach().unwrap();
    power.mark(4);
    explore(&base, &power.take(), |state, done| {
        let pool = reopen(state).unwrap();
        let (epoch, volume) = (pool.header().epoch, pool.header().volume);
        assert!(epoch >= done.min(3) && epoch <= (done + 1).min(3), "{done}: {epoch}");
        assert!(done < 4 || volume.is_none());
        assert_eq!(epoch > 0 && volume.is_none(), epoch == 3 && volume.is_none());
    });
}

#[test]
fn making_a_pool_leaves_the_old_one_or_none_or_the_new_one() {
    let mut old = Pool::create(Nvm::volatile(SIZE).unwrap(), &PoolSpec { uuid: [9; 16], ..spec() }).unwrap();
    old.attach(VOLUME).unwrap();
    let mut batch = old.nvm().stored();
    batch.copy(8192, &[0xee; 16384]).unwrap();
    batch.write_back().fence().unwrap();
    let base = bytes(&old);
    let events = record(&base, |nvm| drop(Pool::create(nvm, &PoolSpec { force: true, ..spec() }).unwrap()));
    let mut seen = std::collections::BTreeSet::new();
    explore(&base, &events, |state, _| match reopen(state) {
        Ok(pool) if pool.header().uuid == UUID => {
            seen.insert("new");
            let found = bytes(&pool);
            assert!(
                pool.header().areas.iter().all(|a| found[a.start as usize..][..4096] == [0; 4096]),
                "stale contents"
            );
        }
        Ok(pool) => {
            seen.insert("old");
            assert_eq!(pool.header(), old.header());
            assert_eq!(bytes(&pool)[8192..], base[8192..], "nothing of it has changed");
        }
        Err(PoolError::NotAPool { .. } | PoolError::Damaged { .. }) => {
            seen.insert("none");
        }
        Err(other) => panic!("{other}"),
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["new", "none", "old"]);
}

#[test]
fn allotting_is_whole_or_not_at_all() {
    let dirty: Vec<u8> = [bytes(&pool())[..20480].to_vec(), vec![0xee; 12288]].concat();
    let events = record(&dirty, |nvm| {
        Pool::open(nvm).unwrap().allot(AreaKind::PAGE_MAP, 8192).unwrap();
    });
    let mut seen = std::collections::BTreeSet::new();
    explore(&dirty, &events, |state, _| {
        let pool = reopen(state).unwrap();
        let area = pool.area(AreaKind::PAGE_MAP);
        seen.insert(area.is_some());
        if let Some(area) = area {
            assert_eq!(bytes(&pool)[area.start as usize..][..4096], [0; 4096]);
        }
    });
    assert_eq!(seen.len(), 2);
}

#[test]
fn several_areas_are_allotted_at_once_or_not_at_all() {
    let whole = bytes(&pool());
    let kinds = [(AreaKind::PAGE_CONFIG, 4096), (AreaKind::PAGE_MAP, 1)];
    let events = record(&whole, |nvm| {
        let mut pool = Pool::open(nvm).unwrap();
        assert!(pool.allot_all(&[(AreaKind::PAGE_CONFIG, 4096), (AreaKind::PAGE_MAP, SIZE)]).is_err());
        assert_eq!(pool.allot_all(&kinds).unwrap().len(), 2);
    });
    let mut seen = std::collections::BTreeSet::new();
    explore(&whole, &events, |state, _| {
        let pool = reopen(state).unwrap();
        seen.insert(kinds.map(|(kind, _)| pool.area(kind).is_some()));
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [[false; 2], [true; 2]]);
}

#[test]
fn inspecting_changes_nothing() {
    let mut bad = bytes(&pool());
    bad[4096] ^= 1;
    let nvm = Nvm::from_bytes(&bad).unwrap();
    let report = inspect(&nvm).unwrap();
    assert_eq!(report.copies[1], Err(HeaderFault::NoSignature));
    assert_eq!(report.header("x", SIZE).unwrap(), pool().header());
    assert_eq!(nvm.to_bytes().unwrap(), bad);
}

#[test]
fn counters_never_run_over() {
    // Epoch 2^63 - 1, sealed as the format says.
    let mut base = bytes(&pool());
    for copy in [0, 4096] {
        base[copy + 48..copy + 56].copy_from_slice(&(u64::MAX >> 1).to_le_bytes());
        base[copy + 12..copy + 16].fill(0);
        let sum = crc32c(&base[copy..copy + 4096]);
        base[copy + 12..copy + 16].copy_from_slice(&sum.to_le_bytes());
    }
    let mut pool = reopen(&base).unwrap();
    assert!(matches!(pool.attach(VOLUME), Err(PoolError::Spent { .. })));
    assert_eq!(bytes(&pool), base, "nothing was changed");
}

/// Bit by bit, from the polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 })
    })
}
