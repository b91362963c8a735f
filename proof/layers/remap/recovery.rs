//! After a crash, and after a crash during recovery.

use crate::contract::{BLOCK, Bench, HOME, META, bench, byte_at, noise, pool_of};
use crate::own::{DATA, write};
use crate::{BLOCKS, Remap, SMALL, VOLUME, claim, contents, recover};
use ondol_block::BlockStore;
use ondol_env::System;
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_journal::{Extent, JournalError, Kind, remap, scalable};
use ondol_medium::{Nvm, Pool};
use ondol_nvm_log::{Log, OnDamage, Options};
use ondol_page_table::{PageTable, check};
use ondol_power::{Kind as Memory, Layer, Medium, PowerDomain, Sampling};
use ondol_testkit::put_data::PutData;

/// Overwrites, parts, freed blocks and their next owners, with commits and checkpoints between. Round `n` is in the
/// first byte of [`HOME`], and in every block that it writes.
fn rounds(b: &Bench) {
    for n in 1..=12u8 {
        let mut h = b.handle(12);
        (0..6).for_each(|i| h.data(DATA + i, 0, &noise(n, i)).unwrap());
        if n % 3 == 1 {
            h.free(Extent { start: DATA + 20, len: 2 }, Kind::DATA);
        } else {
            (20..22).for_each(|i| h.data(DATA + i, 0, &noise(n, i)).unwrap());
        }
        h.data(DATA + 30, usize::from(n) * 64, &[n; 64]).unwrap();
        h.write(HOME, META, 0, &[n]).unwrap();
        h.close();
        if n % 4 == 1 {
            // What is written in place has the next commit flush the table.
            b.engine.write_data(DATA + 40, 0, &[n; 10]).unwrap();
        }
        if n % 2 == 0 {
            b.sync();
            b.domain.mark(u64::from(n));
        }
        if n % 4 == 0 {
            b.engine.checkpoint_all().unwrap();
        }
    }
}

/// Whether the blocks are those of one round, which is not older than `synced`.
fn judge(store: &dyn BlockStore, synced: u64) -> Result<(), String> {
    let n = byte_at(store, HOME);
    if u64::from(n) < synced {
        return Err(format!("round {n}, and {synced} was synced"));
    }
    let block = |i: u64| {
        let mut bytes = vec![0; BLOCK];
        store.read((DATA + i) * BLOCK as u64, &mut bytes).map(|()| bytes).map_err(|e| e.to_string())
    };
    let data = if n == 0 { 0..0 } else { 0..6 };
    let also = if n == 0 || n % 3 == 1 { 0..0 } else { 20..22 };
    for i in data.chain(also) {
        if block(i)? != noise(n, i) {
            return Err(format!("block {i} is not of round {n}"));
        }
    }
    let parts = block(30)?;
    match (1..=20).all(|of| parts[of * 64] == if of <= usize::from(n) { of as u8 } else { 0 }) {
        true => Ok(()),
        false => Err(format!("the parts are not those of round {n}")),
    }
}

/// How many states of a run are wrong (or that one is, unless it is to be `all`), and how many there are. Each tenth
/// recovery is cut, too, and repeated.
fn explore(rig: &Remap, states: u64, all: bool) -> (usize, usize) {
    let b = bench(rig);
    b.domain.mark(0);
    rounds(&b);
    let media = vec![Medium { base: Layer::new(b.base.clone()), kind: Memory::Nvm, whole: None }];
    let events = b.domain.take();
    let sampling = Sampling::default().at_most(12).spread(&media, &events, |_| false, states);
    let (mut wrong, mut number) = (0, 0);
    let count = sampling.each(&media, &events, |layers, synced| {
        if wrong > 0 && !all {
            return;
        }
        let bytes = layers[0].to_bytes();
        number += 1;
        let once = recovered(&bytes, None).and_then(|table| judge(&table, synced));
        let again = || if number % 10 == 0 { cut_again(&bytes, synced) } else { Ok(()) };
        wrong += usize::from(once.and_then(|()| again()).is_err());
    });
    (wrong, count)
}

/// The table of a pool after recovery, whose log is empty then.
fn recovered(bytes: &[u8], power: Option<&Arc<PowerDomain>>) -> Result<PageTable, String> {
    let nvm = Nvm::from_bytes(bytes).unwrap();
    let nvm = match power {
        Some(power) => nvm.record(power.clone(), 0),
        None => nvm,
    };
    let pool = Pool::open(nvm).map_err(|e| e.to_string())?;
    recovered_pool(&pool)?;
    if !check(&pool).map_err(|e| e.to_string())?.problems.is_empty() {
        return Err("the table's invariants are broken".into());
    }
    PageTable::attach(&pool).map_err(|e| e.to_string())
}

fn recovered_pool(pool: &Pool) -> Result<(), String> {
    let table: Arc<dyn BlockStore> = Arc::new(PageTable::attach(pool).map_err(|e| e.to_string())?);
    let contents = contents(pool);
    let pages = remap::pages(&contents).map_err(|e| e.to_string())?;
    let before = |text: &[u8]| (0..8).try_for_each(|n| table.write((BLOCKS - 10 + n) * BLOCK as u64, text));
    if ondol_faults::current() == Some(Defect::RemapUnclaimed) {
        before(&[7; BLOCK]).unwrap();
    } else {
        claim(&*table, &contents);
        // What a mount writes before it recovers.
        before(&[8; BLOCK]).unwrap();
    }
    let client = crate::contract::TestClient::default();
    scalable::recover(&table, VOLUME, &contents, &client, &System).map_err(|e| e.to_string())?;
    drop(Log::start(contents, Arc::new(System), &Options::default()).map_err(|e| e.to_string())?);
    table.lender().unwrap().give(&pages);
    match table.lender().unwrap().lent() {
        0 => Ok(()),
        n => Err(format!("{n} pages are lent")),
    }
}

fn cut_again(bytes: &[u8], synced: u64) -> Result<(), String> {
    let power = PowerDomain::new();
    recovered(bytes, Some(&power))?;
    let media = vec![Medium { base: Layer::new(bytes.to_vec()), kind: Memory::Nvm, whole: None }];
    let mut result = Ok(());
    let events = power.take();
    Sampling::default().at_most(4).spread(&media, &events, |_| false, 20).each(&media, &events, |layers, _| {
        let found = recovered(&layers[0].to_bytes(), None).and_then(|table| judge(&table, synced));
        result = std::mem::replace(&mut result, Ok(())).and(found);
    });
    result
}

#[test]
fn every_cut_leaves_a_round_whole() {
    let (wrong, states) = explore(&SMALL, 100, true);
    assert!(wrong == 0 && states > 60, "{wrong} of {states}");
}

#[test]
fn planted_defects_are_found() {
    for defect in [
        Defect::RemapSkipped,
        Defect::RemapUncommitted,
        Defect::RemapUnclaimed,
        Defect::UnfilledPage,
        Defect::TableEarlyReuse,
        Defect::MissingFlushBeforeTail,
        Defect::MissingFlushInRecovery,
    ] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let (wrong, states) = explore(&SMALL, 80, false);
        assert!(wrong > 0, "{defect:?}: none of {states} states");
    }
}

/// A page that has lost a line, or whose bits have changed, is no file data: its block is named.
#[test]
fn a_page_that_is_not_what_its_record_says_is_refused() {
    let b = bench(&SMALL);
    write(&b, DATA, 1, 3);
    b.sync();
    let mut bytes = b.nvm.as_ref().unwrap().to_bytes().unwrap();
    let at = bytes.chunks_exact(BLOCK).position(|page| page == [3; BLOCK]).unwrap() * BLOCK;
    bytes[at + 1000] ^= 1;
    let pool = pool_of(&bytes);
    let table: Arc<dyn BlockStore> = Arc::new(PageTable::attach(&pool).unwrap());
    claim(&*table, &contents(&pool));
    let client = crate::contract::TestClient::default();
    let recover = |contents| scalable::recover(&table, VOLUME, contents, &client, &System);
    let found = contents(&pool);
    let refused = recover(&found);
    assert!(matches!(refused, Err(JournalError::LostData { block: DATA })), "{refused:?}");
    let by_force = ondol_nvm_log::Contents::open(&pool, &System, OnDamage::GoOn).unwrap().over_table(&pool);
    assert_eq!(recover(&by_force).unwrap().lost, [DATA]);
}

/// In memory, over a table that is only read, recovery copies: what an export has.
#[test]
fn recovery_into_memory_leaves_the_pool_as_it_is() {
    let b = bench(&SMALL);
    write(&b, DATA, 3, 6);
    b.sync();
    let bytes = b.nvm.as_ref().unwrap().to_bytes().unwrap();
    let pool = pool_of(&bytes);
    let table = Arc::new(PageTable::attach(&pool).unwrap());
    let over: Arc<dyn BlockStore> = Arc::new(ondol_block::OverlayStore::new(table.clone()));
    let client = crate::contract::TestClient::default();
    scalable::recover(&over, VOLUME, &contents(&pool), &client, &System).unwrap();
    assert_eq!((byte_at(&*over, DATA + 2), byte_at(&*table, DATA + 2)), (6, 0));
    assert_eq!(pool.nvm().to_bytes().unwrap(), bytes);
    let store: Arc<dyn BlockStore> = table;
    recover(&store, &pool);
    assert_eq!(byte_at(&*store, DATA + 2), 6);
}
