//! Pages of file data that have lost a line, and that nobody needs any more.

use crate::contract::{BLOCK, Bench, HOME, Rig, bench_with, byte_at, config, pool_without, recovered};
use ondol_block::RamStore;
use ondol_env::sync::Arc;
use ondol_journal::Config;
use ondol_power::{Kind, Layer, Medium, Sampling};
use ondol_testkit::put_data::PutData;

/// The tests of this module, of one rig.
macro_rules! lost_pages {
    ($rig:expr) => {
        #[test]
        fn a_lost_page_that_was_replaced_stops_no_checkpoint() {
            $crate::lost::a_lost_page_that_was_replaced_stops_no_checkpoint(&$rig);
        }

        #[test]
        fn a_lost_page_that_was_replaced_stops_no_recovery() {
            $crate::lost::a_lost_page_that_was_replaced_stops_no_recovery(&$rig);
        }
    };
}
pub(crate) use lost_pages;

const DATA: u64 = HOME + 100;
/// What the page that loses a line has, and what is written over it.
const OLD: u8 = 0xA1;
const NEW: u8 = 0xB2;

fn write(b: &Bench, len: usize, byte: u8) {
    let mut h = b.handle(1);
    h.data(DATA, 0, &vec![byte; len]).unwrap();
    h.close();
}

/// A block lies in a page, then more is committed than one checkpoint takes, then the block changes again: its first
/// `len` bytes. Returns also where the page lies in the pool.
fn replaced(rig: &dyn Rig, len: usize, is_committed: bool) -> (Bench, u64) {
    let b = bench_with(rig, Config { pending_bytes: 64 * BLOCK as u64, ..config() });
    write(&b, BLOCK, OLD);
    b.sync();
    (0..20).for_each(|n| b.fill(HOME + 10 + n, 1));
    b.sync();
    write(&b, len, NEW);
    if is_committed {
        b.sync();
    }
    let (_, pool) = b.now();
    let mut lines = (0..=pool.len() - BLOCK).step_by(64);
    let at = lines.find(|at| pool[*at..*at + BLOCK] == [OLD; BLOCK]).expect("it lies in a page");
    (b, at as u64)
}

fn block(len: usize) -> Vec<u8> {
    let mut bytes = vec![OLD; BLOCK];
    bytes[..len].fill(NEW);
    bytes
}

/// A checkpoint that takes the older change alone goes on, whether the newer one is committed or not, and whether that
/// has all of the block or builds on what is in memory.
pub(crate) fn a_lost_page_that_was_replaced_stops_no_checkpoint(rig: &dyn Rig) {
    for (len, is_committed) in [(BLOCK, true), (BLOCK, false), (16, true), (16, false)] {
        let (b, _) = replaced(rig, len, is_committed);
        assert!(b.engine.checkpoint().unwrap());
        assert_eq!(byte_at(&*b.store, DATA), OLD, "the newer one is left to the next checkpoint");

        let (b, page) = replaced(rig, len, is_committed);
        b.nvm.as_ref().unwrap().poison().add_line(page + 128);
        let what = format!("{len} bytes, committed: {is_committed}");
        assert!(b.engine.checkpoint().expect(&what));
        b.fill(HOME + 2, 2);
        b.sync();
        b.engine.checkpoint_all().expect(&what);
        let mut home = vec![0; BLOCK];
        b.store.read(DATA * BLOCK as u64, &mut home).expect(&what);
        assert!(home == block(len) && byte_at(&*b.store, HOME + 2) == 2, "{what}: {:?}", &home[..20]);
    }
}

/// Nor does it stop recovery, wherever power is cut while such a checkpoint is under way.
pub(crate) fn a_lost_page_that_was_replaced_stops_no_recovery(rig: &dyn Rig) {
    let (b, page) = replaced(rig, BLOCK, true);
    let (home, pool) = b.now();
    let medium = |bytes, kind| Medium { base: Layer::new(bytes), kind, whole: None };
    let mut media = vec![medium(pool, Kind::Nvm)];
    if rig.log() == 0 {
        media.insert(0, medium(home, Kind::Block));
    }
    drop(b.domain.take());
    b.nvm.as_ref().unwrap().poison().add_line(page + 128);
    assert!(b.engine.checkpoint().unwrap());
    let events = b.domain.take();
    let sampling = Sampling::default().at_most(8).spread(&media, &events, |_| false, 60);
    let states = sampling.each(&media, &events, |layers, _| {
        let pool = pool_without(&layers[layers.len() - 1].to_bytes(), page + 128);
        let after = match rig.log() {
            0 => {
                let after = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
                rig.recover(after.clone(), Some(pool));
                after
            }
            _ => recovered(rig, pool),
        };
        assert_eq!(byte_at(&*after, DATA), NEW);
    });
    assert!(states > 10, "{states}");
}
