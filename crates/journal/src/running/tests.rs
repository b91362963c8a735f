use super::*;
use crate::cache::{Cache, Home};
use crate::client::{Client, Images};
use crate::write_set::Staged;
use crate::{Corrupt, Patches};
use ondol_env::{Fixed, Timestamp};

struct Nothing;

impl Home for Nothing {
    fn home_from(&self, _: u64) -> u64 {
        u64::MAX
    }
    fn committed(&self, _: u64) -> Option<Block> {
        None
    }
    fn read_home(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Ok(())
    }
}

impl Client for Nothing {
    fn build(&self, _: Kind, _: &mut [u8]) -> bool {
        false
    }
    fn verify(&self, _: u64, _: Kind, _: &[u8]) -> std::result::Result<(), Corrupt> {
        Ok(())
    }
    fn seal(&self, _: u64, _: Kind, _: &[u8], _: &Ranges, _: &dyn Images) -> Patches {
        Patches::default()
    }

    fn may_tear(&self, _: Kind) -> bool {
        false
    }
    fn release(&self, _: &[Extent]) {}
}

const SIZE: usize = 64;
const META: Kind = Kind { class: 1, owner: 0, salt: 0 };

struct Transaction {
    cache: Cache,
    running: Running,
    env: Fixed,
}

impl Transaction {
    fn new() -> Self {
        let cache = Cache::new(SIZE, 1 << 20, Arc::new(Nothing), Arc::new(Nothing));
        Self { cache, running: Running::new(Tid(1)), env: Fixed::new(Timestamp::default(), 1) }
    }

    fn write(&self, blocks: std::ops::Range<u64>, kind: Kind) {
        let staged = |block| Staged::whole(self.cache.get_unread(block, kind), kind, vec![1; SIZE].into());
        self.publish(WriteSet { blocks: blocks.map(staged).collect(), ..WriteSet::default() });
    }

    fn free(&self, blocks: std::ops::Range<u64>, kind: Kind) {
        let extent = Extent { start: blocks.start, len: blocks.count() as u32 };
        self.publish(WriteSet { freed: vec![(extent, kind)], ..WriteSet::default() });
    }

    fn publish(&self, set: WriteSet<'_>) {
        let forget = |freed: &[(Extent, Kind)]| {
            let blocks = freed.iter().flat_map(|(extent, _)| extent.start..extent.start + u64::from(extent.len));
            blocks.filter_map(|block| self.cache.forget(block)).collect()
        };
        self.running.publish(set, SIZE, &self.env, forget, NewData::Logged);
    }

    fn listed(&self) -> usize {
        self.running.shards.iter().map(|shard| shard.lock().bufs.len()).sum()
    }
}

#[test]
fn the_lists_hold_no_more_dead_than_live() {
    for kind in [Kind::DATA, META] {
        let tx = Transaction::new();
        tx.write(0..10, META);
        tx.write(10..20, Kind::DATA);
        for n in 1..200 {
            tx.write(n * 50..n * 50 + 40, kind);
            tx.free(n * 50..n * 50 + 40, kind);
            assert!(tx.listed() as u64 <= 2 * (20 + 40) + FEW, "{} after {n}", tx.listed());
        }
        assert_eq!((tx.running.held(), tx.running.promised(), tx.running.dead()), (20, 20, 199 * 40));
        let switched = tx.running.switch().unwrap();
        let mut there: Vec<u64> = switched.blocks.iter().map(|frozen| frozen.buf.block).collect();
        there.sort_unstable();
        assert_eq!((there, switched.promised), ((0..20).collect(), 20), "what lives is not swept");
        assert_eq!(switched.freed.len(), 199, "what is freed is told");
    }
}

#[test]
fn data_that_dies_keeps_no_bytes() {
    let tx = Transaction::new();
    tx.write(0..3, Kind::DATA);
    tx.write(3..4, META);
    let others = tx.cache.get_unread(2, Kind::DATA);
    tx.free(1..4, Kind::DATA);
    let mut with_bytes: Vec<u64> = Vec::new();
    for shard in &tx.running.shards {
        let has_bytes = |buf: &&Arc<Buf>| buf.state.lock().image().is_some();
        with_bytes.extend(shard.lock().bufs.iter().filter(has_bytes).map(|buf| buf.block));
    }
    with_bytes.sort_unstable();
    assert_eq!(with_bytes, [0, 2, 3], "nor does what somebody else still has");
    assert_eq!(*others.snapshot(), [1; SIZE]);
}
