//! What callers and owners see: costs, watermarks, failures of home and NVM, slots, threads.

mod common;

use common::memory::MemoryHome;
use common::{BLOCK, Rig, env, id, medium_size, names, open, options, pool, shape, spec};
use ondol_env::sync::{Arc, thread};
use ondol_env::{Background, Progress, Step, System};
use ondol_medium::{Nvm, NvmError, NvmStats, Pool, PoolSpec};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_write_buffer::{Buffer, BufferError, DirectoryHome, Options, Shape};
use std::io::ErrorKind;

/// Lines written back, bytes copied past the caches, and fences of what `run` does.
fn cost(pool: &Pool, run: impl FnOnce()) -> (u64, u64, u64) {
    let before = pool.nvm().stats();
    run();
    let NvmStats { lines, copied_bytes, fences, .. } = pool.nvm().stats();
    (lines - before.lines, copied_bytes - before.copied_bytes, fences - before.fences)
}

#[test]
fn a_write_costs_about_its_size() {
    let shape = Shape { files: 4, ..Shape::default() };
    let pool = pool(shape, 64);
    let (buffer, _) = Buffer::open(&pool, Arc::new(MemoryHome::new()), env(), &Options { shape, ..options() }).unwrap();
    let file = buffer.open_file(&id("ash"), true).unwrap();
    file.write_at(0, &[1; 8]).unwrap();
    assert_eq!(cost(&pool, || file.write_at(5, &[2; 100]).unwrap()), (3, 0, 1), "100 bytes");
    assert_eq!(cost(&pool, || file.write_at(7, &[2; 1]).unwrap()), (1, 0, 1), "one byte");
    assert_eq!(cost(&pool, || file.write_at(4096, &[3; 4096]).unwrap()), (0, 65 * 64, 1), "4 KiB");
    assert_eq!(cost(&pool, || file.write_at(16384, &[4; 16384]).unwrap()), (1, 16384, 1), "16 KiB");
    assert_eq!(cost(&pool, || file.write_at(1 << 20, &[5; 131072]).unwrap()), (8, 131_072, 1), "128 KiB");
    assert_eq!(cost(&pool, || file.set_len(9).unwrap()), (1, 0, 1), "truncate");
    let small = buffer.open_file(&id("birch"), true).unwrap();
    for n in 0..400u64 {
        small.write_at(n * 300, &[7; 100]).unwrap();
    }
    let stats = buffer.stats();
    let per_byte = stats.held_bytes as f64 / stats.live_bytes as f64;
    assert!(per_byte < 2.5, "{per_byte} bytes of NVM for each of 100-byte writes: {stats:?}");
}

#[test]
fn stages_wait_for_their_marks_and_join_neighbours() {
    let mut rig = Rig::new(64);
    let file = rig.file(0);
    let flushers = rig.buffer.flushers();
    let steps = || flushers.iter().map(|f| f.step().unwrap()).filter(|p| *p == Progress::Worked).count();
    file.write_at(0, &[1; 512]).unwrap();
    file.write_at(1024, &[3; 512]).unwrap();
    assert_eq!((steps(), rig.buffer.stats().home_writes), (0, 0), "below the low watermark");
    file.write_at(512, &[2; 512]).unwrap();
    assert_eq!((steps(), rig.buffer.stats().home_writes), (1, 1), "three neighbours in one write");
    assert_eq!(rig.buffer.syncer().step().unwrap(), Progress::Idle, "nothing is short");
    assert_eq!(rig.buffer.reclaimer().step().unwrap(), Progress::Idle);
    assert_eq!(rig.buffer.stats().dirty_bytes, 3 * BLOCK);
    file.write_at(2048, &[4; 100]).unwrap();
    assert_eq!(steps(), 0);
}

#[test]
fn what_is_old_goes_home_without_need() {
    let clock = env();
    let pool = pool(shape(), 32);
    let home = Arc::new(MemoryHome::new());
    let (buffer, _) = Buffer::open(&pool, home.clone(), clock.clone(), &options()).unwrap();
    buffer.open_file(&id("ash"), true).unwrap().write_at(0, b"warm").unwrap();
    let step = || buffer.flushers().iter().any(|f| f.step().unwrap() == Progress::Worked);
    assert!(!step());
    clock.advance(options().age_ms * 1_000_000);
    assert!(step() && buffer.syncer().step().unwrap() == Progress::Idle);
    clock.advance(options().age_ms * 1_000_000);
    assert_eq!(buffer.syncer().step().unwrap(), Progress::Worked);
    assert_eq!((buffer.stats().dirty_bytes, home.contents(&id("ash")).unwrap()), (0, b"warm".to_vec()));
}

#[test]
fn a_failure_of_the_home_is_told_once_and_nothing_is_lost() {
    for what in ["write", "sync", "set_len"] {
        let mut rig = Rig::new(32);
        let (file, other) = (rig.file(0), rig.file(1));
        file.write_at(0, &[5; 700]).unwrap();
        file.set_len(650).unwrap();
        other.write_at(0, b"other").unwrap();
        let ash = id("ash");
        let fails =
            move |w: &str, name: Option<&_>| (w == what && name == Some(&ash)).then(|| ErrorKind::StorageFull.into());
        rig.home.set_fault(Some(Box::new(fails)));
        let settled = file.settle().unwrap_err().to_string();
        assert!(settled.contains("ash") && settled.contains("storage"), "{settled}");
        assert!(file.fsync().is_err() && file.fsync().is_ok() && other.fsync().is_ok(), "{what}");
        other.settle().unwrap();
        assert!(rig.buffer.stats().home_errors > 0);
        let mut found = [0; 700];
        assert_eq!((file.read_at(0, &mut found).unwrap(), found[649]), (650, 5));
        rig.home.set_fault(None);
        file.settle().unwrap();
        assert_eq!(rig.home.contents(&id("ash")).unwrap(), [5; 650]);
        assert_eq!(rig.buffer.check(), Vec::<String>::new());
    }
}

/// Else they would try without a pause what fails.
#[test]
fn stages_that_fail_wake_nobody() {
    for what in ["write", "sync"] {
        let mut rig = Rig::new(64);
        let file = rig.file(0);
        rig.home.set_fault(Some(Box::new(move |w, _| (w == what).then(|| ErrorKind::StorageFull.into()))));
        for block in 0..60 {
            file.write_at(block * BLOCK, &[1; BLOCK as usize]).unwrap();
        }
        let (flushers, syncer) = (rig.buffer.flushers(), rig.buffer.syncer());
        let mut failed = 0;
        for step in flushers.iter().map(|step| step as &dyn Step<Error = BufferError>).chain([&syncer as _]) {
            let rings = step.bell().rings();
            let is_failed = step.step().is_err();
            failed += usize::from(is_failed);
            assert!(!is_failed || step.bell().rings() == rings, "{what}: {}", step.name());
        }
        assert!(failed > 0, "{what}");
    }
}

#[test]
fn a_full_buffer_before_a_full_home_refuses_and_keeps() {
    let mut rig = Rig::new(8);
    let file = rig.file(0);
    rig.home.set_fault(Some(Box::new(|what, _| (what == "write").then(|| ErrorKind::StorageFull.into()))));
    let mut written = 0;
    let refused = loop {
        match file.write_at(written * BLOCK, &[written as u8 + 1; BLOCK as usize]) {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, BufferError::Full(_)), "{refused}");
    assert!(written >= 4, "{written} blocks of 8 hold something");
    rig.home.set_fault(None);
    file.write_at(written * BLOCK, &[written as u8 + 1; BLOCK as usize]).unwrap();
    rig.buffer.settle().unwrap();
    let expected: Vec<u8> = (0..=written).flat_map(|n| [n as u8 + 1; BLOCK as usize]).collect();
    assert_eq!(rig.home.contents(&id("ash")).unwrap(), expected);
    assert_eq!(rig.buffer.check(), Vec::<String>::new());
}

#[test]
fn slots_go_from_closed_files_to_others() {
    let shape = Shape { files: 2, ..shape() };
    let pool = pool(shape, 32);
    let home = Arc::new(MemoryHome::new());
    let (buffer, _) = Buffer::open(&pool, home.clone(), env(), &Options { shape, ..options() }).unwrap();
    for n in 0..20u8 {
        let file = buffer.open_file(&id(&format!("file {n}")), true).unwrap();
        file.write_at(0, &[n; 40]).unwrap();
    }
    let (a, b) = (buffer.open_file(&id("file 3"), false).unwrap(), buffer.open_file(&id("file 4"), false).unwrap());
    let refused = buffer.open_file(&id("file 5"), false).unwrap_err();
    assert!(matches!(refused, BufferError::Files { slots: 2, .. }), "{refused}");
    assert!(matches!(buffer.open_file(&id("none"), false), Err(BufferError::Files { .. })));
    drop((a, b));
    assert!(matches!(buffer.open_file(&id("none"), false), Err(BufferError::NotFound(_))));
    buffer.settle().unwrap();
    assert!((0..20u8).all(|n| home.contents(&id(&format!("file {n}"))).unwrap() == [n; 40]));
    assert_eq!((buffer.stats().files, buffer.check()), (0, Vec::new()));
}

#[test]
fn offsets_end_where_files_do() {
    let mut rig = Rig::new(16);
    let file = rig.file(0);
    let last = i64::MAX as u64;
    assert!(matches!(file.write_at(last, &[1, 2]), Err(BufferError::Range { .. })));
    assert!(matches!(file.write_at(u64::MAX, &[1]), Err(BufferError::Range { .. })));
    assert!(matches!(file.set_len(1 << 63), Err(BufferError::Range { .. })));
    file.write_at(last - 1, &[9]).unwrap();
    let mut found = [0; 4];
    assert_eq!((file.size(), file.read_at(last - 2, &mut found).unwrap(), found), (last, 2, [0, 9, 0, 0]));
    assert_eq!(file.read_at(u64::MAX, &mut found).unwrap(), 0);
    file.set_len(3).unwrap();
    rig.buffer.settle().unwrap();
    assert_eq!(rig.home.contents(&id("ash")).unwrap(), [0; 3]);
}

#[test]
fn lost_lines_are_told_and_healed_by_new_bytes() {
    let mut rig = Rig::new(16);
    let file = rig.file(0);
    file.write_at(0, &[6; 512]).unwrap();
    let data = rig.pool.area(ondol_medium::AreaKind::BUFFER_DATA).unwrap();
    (data.start..data.start + data.len).step_by(64).for_each(|line| rig.pool.nvm().poison().add_line(line));
    let mut found = [0; 10];
    let error = file.read_at(100, &mut found).unwrap_err();
    assert!(matches!(error, BufferError::Nvm(NvmError::Poisoned { .. })), "{error}");
    file.write_at(0, &[7; 512]).unwrap();
    file.write_at(90, &[8; 15]).unwrap();
    assert_eq!((file.read_at(100, &mut found).unwrap(), found), (10, [8, 8, 8, 8, 8, 7, 7, 7, 7, 7]));
}

#[test]
fn areas_that_cannot_be_are_refused_by_name() {
    let home = || Arc::new(MemoryHome::new());
    let open = |pool: &Pool, shape| Buffer::open(pool, home(), env(), &Options { shape, ..options() }).map(drop);
    let bare = Pool::create(Nvm::volatile(1 << 16).unwrap(), &PoolSpec::default()).unwrap();
    assert!(matches!(open(&bare, shape()), Err(BufferError::NoAreas { .. })));
    for bad in
        [Shape { block_size: 1000, files: 4 }, Shape { block_size: 4096, files: 4 }, Shape { files: 0, ..shape() }]
    {
        assert!(matches!(open(&pool(shape(), 16), bad), Err(BufferError::Shape { .. })), "{bad:?}");
    }
    let made = pool(shape(), 16);
    open(&made, shape()).unwrap();
    let tables = made.area(ondol_medium::AreaKind::BUFFER_TABLES).unwrap().start as usize;
    let good = made.nvm().to_bytes().unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let pool = Pool::open(Nvm::from_bytes(&bytes).unwrap()).unwrap();
        let opened = open(&pool, shape());
        opened.map(|()| assert_eq!(pool.nvm().to_bytes().unwrap(), good, "mended"))
    };
    with(&|b| b[tables + 50] ^= 1).unwrap();
    with(&|b| b[tables + 4096 + 50] ^= 1).unwrap();
    let both = with(&|b| [0, 4096].iter().for_each(|at| b[tables + at + 50] ^= 1)).unwrap_err();
    assert!(matches!(&both, BufferError::Header { .. }) && both.to_string().contains("checksum"), "{both}");
    let mut other = PoolSpec { uuid: [9; 16], ..spec(shape(), 16) };
    other.force = true;
    let foreign = Pool::create(Nvm::volatile(medium_size(shape(), 16)).unwrap(), &other).unwrap();
    let mut batch = foreign.nvm().stored();
    batch.store(tables as u64, &good[tables..tables + 128]).unwrap();
    batch.write_back().fence().unwrap();
    assert!(matches!(open(&foreign, shape()), Err(BufferError::Foreign { .. })));
}

/// Making a buffer can be cut anywhere.
#[test]
fn a_buffer_is_made_whole_or_made_again() {
    let bare = pool(shape(), 8).nvm().to_bytes().unwrap();
    // What lies in the area behind its first page is nobody's.
    let mut dirty = bare.clone();
    dirty[8192 + 4096..].fill(0xa5);
    let power = PowerDomain::new();
    let pool = Pool::open(Nvm::from_bytes(&dirty).unwrap().record(power.clone(), 0)).unwrap();
    drop(open(&pool, Arc::new(MemoryHome::new())));
    let media = [Medium { base: Layer::new(dirty), kind: Kind::Nvm, whole: None }];
    let states = Sampling::default().each(&media, &power.take(), |layers, _| {
        let pool = Pool::open(Nvm::from_bytes(&layers[0].to_bytes()).unwrap()).unwrap();
        let (buffer, report) = open(&pool, Arc::new(MemoryHome::new()));
        assert_eq!((report, buffer.stats().files), Default::default());
        buffer.open_file(&names()[0], true).unwrap().write_at(0, b"x").unwrap();
    });
    assert!(states > 50, "{states}");
}

/// Threads of all stages and several writers on files of a real directory.
#[test]
fn threads_on_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { block_size: 4096, files: 16 };
    let pool = pool(shape, 24);
    let home = Arc::new(DirectoryHome::new(dir.path()).unwrap());
    let (buffer, _) = Buffer::open(&pool, home, Arc::new(System), &Options { shape, ..options() }).unwrap();
    let mut stages = Background::default();
    buffer.steps().into_iter().for_each(|step| stages.run(step).unwrap());
    let writers: Vec<_> = (0..4u8)
        .map(|w| {
            let buffer = buffer.clone();
            thread::spawn(move || {
                let file = buffer.open_file(&id(&format!("own {w}")), true).unwrap();
                let shared = buffer.open_file(&id("shared"), true).unwrap();
                let mut plain = vec![0u8; 60_000];
                for n in 0..400usize {
                    let (at, len) = (n * 7919 % 50_000, 1 + n * 131 % 9000);
                    let data = vec![w * 60 + (n % 50) as u8 + 1; len];
                    file.write_at(at as u64, &data).unwrap();
                    plain[at..at + len].copy_from_slice(&data);
                    shared.write_at(u64::from(w) * 1000 + (n % 10) as u64 * 100, &data[..len.min(100)]).unwrap();
                    let mut found = vec![0; len];
                    assert_eq!(file.read_at(at as u64, &mut found).unwrap(), len);
                    assert_eq!(found, data);
                }
                (plain, file.size() as usize)
            })
        })
        .collect();
    let plains: Vec<_> = writers.into_iter().map(|w| w.join().unwrap()).collect();
    buffer.settle().unwrap();
    stages.stop();
    for (w, (plain, size)) in plains.iter().enumerate() {
        assert_eq!(std::fs::read(dir.path().join(format!("own {w}"))).unwrap(), plain[..*size]);
    }
    assert_eq!(std::fs::read(dir.path().join("shared")).unwrap().len(), 4000);
    let stats = buffer.stats();
    assert_eq!((buffer.check(), stats.dirty_bytes, stats.files), (Vec::new(), 0, 0));
}
