//! Multiple mount protection while an image is being opened: who opens it keeps it however long recovery takes, lets go
//! of it when opening fails, and leaves it to another host that has taken it.

use ondol::{Options, Volume};
use ondol_block::{BlockStats, BlockStore, Caps, RamStore};
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Fixed};
use ondol_format::Superblock;
use ondol_format::mmp::{MIN_CHECK_INTERVAL, RawMmp, SEQ_CLEAN, SIZE};
use ondol_testkit::image::{self, Spec};
use std::io::IoSlice;
use std::time::Duration;

/// Turns of ten milliseconds after which what should happen in the background is not going to.
const TURNS: u32 = 12_000;

fn superblock(store: &dyn BlockStore) -> Superblock {
    let mut bytes = [0; 1024];
    store.read(1024, &mut bytes).expect("a superblock");
    Superblock::parse(&bytes, store.size()).expect("a superblock")
}

fn place(store: &dyn BlockStore) -> u64 {
    let sb = superblock(store);
    sb.mmp_block().expect("an MMP block") * u64::from(sb.block_size())
}

fn mmp(store: &dyn BlockStore) -> RawMmp {
    let mut bytes = [0; SIZE];
    store.read(place(store), &mut bytes).expect("an MMP block");
    RawMmp::parse(&superblock(store), &bytes).expect("an MMP block")
}

fn set_seq(store: &dyn BlockStore, seq: u32) {
    let mut new = mmp(store);
    new.mmp_seq.set(seq);
    // Whoever comes waits for as short as can be.
    new.mmp_check_interval.set(MIN_CHECK_INTERVAL);
    store.write(place(store), &new.encode(&superblock(store))).expect("a write");
}

/// A protected image that a crash has left with a journal to replay.
fn crashed() -> RamStore {
    let spec = Spec::new(16 << 20, 1024).with("-O mmp -E mmp_update_interval=1");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let volume = Volume::open_stepped(store.clone(), &Options::default(), image::clock(1)).expect("open");
    volume.write("/synced", b"yes").and_then(|()| volume.sync()).expect("sync");
    drop(volume);
    let copy = RamStore::from_bytes(store.to_bytes());
    // Nobody has to be waited for.
    set_seq(&copy, SEQ_CLEAN);
    copy
}

/// What happens meanwhile, at the first write that is not to the MMP block: recovery has begun.
enum Meanwhile {
    /// It takes so long that the holder must have shown itself again.
    Long,
    /// It takes longer still, and another host takes the volume.
    Taken,
    /// The write fails.
    Fails,
}

/// A store on which that happens.
struct Slow {
    inner: RamStore,
    clock: Arc<Fixed>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

/// The number of the other host.
const OTHER: u32 = 77;

impl Slow {
    /// Lets time go by.
    fn pass(&self, seconds: u64) {
        self.clock.advance(seconds * 1_000_000_000);
    }

    fn happen(&self, what: &Meanwhile) -> ondol_block::Result<()> {
        match what {
            Meanwhile::Fails => self.inner.write(self.inner.size(), &[0]),
            Meanwhile::Taken => {
                // It goes on saying so: the first time the holder may be about to say it, too, having looked before.
                for _ in 0..10 {
                    set_seq(&self.inner, OTHER);
                    self.pass(60);
                    std::thread::sleep(Duration::from_millis(20));
                }
                set_seq(&self.inner, OTHER);
                self.pass(60);
                Ok(())
            }
            Meanwhile::Long => {
                let before = mmp(&self.inner).mmp_seq;
                self.pass(6);
                for _ in 0..TURNS {
                    if mmp(&self.inner).mmp_seq != before {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                panic!("nobody says that the volume is in use");
            }
        }
    }
}

impl BlockStore for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
        self.inner.read(offset, buf)
    }

    fn write_vectored(&self, offset: u64, bufs: &[IoSlice<'_>]) -> ondol_block::Result<()> {
        if offset != place(&self.inner)
            && let Some(what) = self.meanwhile.lock().take()
        {
            self.happen(&what)?;
        }
        self.inner.write_vectored(offset, bufs)
    }

    fn flush(&self) -> ondol_block::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> ondol_block::Result<bool> {
        self.inner.discard(offset, len)
    }

    fn stats(&self) -> BlockStats {
        self.inner.stats()
    }
}

fn open(meanwhile: Option<Meanwhile>, inner: RamStore) -> (Arc<Slow>, ondol::Result<Volume>) {
    let clock = image::clock(2);
    let store = Arc::new(Slow { inner, clock: clock.clone(), meanwhile: Mutex::new(meanwhile) });
    let opened = Volume::open_stepped(store.clone(), &Options::default(), clock);
    assert!(store.meanwhile.lock().is_none(), "nothing was written");
    (store, opened)
}

#[test]
fn a_long_recovery_keeps_the_volume() {
    let (store, volume) = open(Some(Meanwhile::Long), crashed());
    let volume = volume.expect("open");
    assert_eq!(volume.read("/synced").expect("read"), b"yes");
    assert_ne!(mmp(&store.inner).mmp_seq.get(), SEQ_CLEAN);
    volume.close().expect("close");
    assert_eq!(mmp(&store.inner).mmp_seq.get(), SEQ_CLEAN);
    assert!(image::check(&store.inner.to_bytes()).expect("e2fsck").is_clean());
}

#[test]
fn a_volume_that_was_lost_meanwhile_is_not_opened() {
    let (store, volume) = open(Some(Meanwhile::Taken), crashed());
    let error = volume.map(drop).expect_err("somebody else has it");
    assert!(error.to_string().contains("has been taken by"), "{error}");
    assert_eq!(mmp(&store.inner).mmp_seq.get(), OTHER, "it is still theirs");
}

#[test]
fn a_failed_open_lets_go() {
    let (store, volume) = open(Some(Meanwhile::Fails), crashed());
    let error = volume.map(drop).expect_err("a write failed");
    assert!(error.to_string().contains("lies outside"), "{error}");
    assert_eq!(mmp(&store.inner).mmp_seq.get(), SEQ_CLEAN, "nobody has it");
    let again = Arc::new(RamStore::from_bytes(store.inner.to_bytes()));
    set_seq(&*again, SEQ_CLEAN);
    let volume = Volume::open_stepped(again.clone(), &Options::default(), image::clock(3)).expect("open");
    assert_eq!(volume.read("/synced").expect("read"), b"yes");
    volume.close().expect("close");
    assert!(image::check(&again.to_bytes()).expect("e2fsck").is_clean());
}

/// The seconds that opening took by its clock, the volume, and its clock.
fn timed(store: &Arc<RamStore>) -> (u64, Volume, Arc<Fixed>) {
    let clock = image::clock(4);
    let begun = clock.monotonic_ns();
    let volume = Volume::open_stepped(store.clone(), &Options::default(), clock.clone()).expect("open");
    ((clock.monotonic_ns() - begun) / 1_000_000_000, volume, clock)
}

/// The kernel waits for nobody where the block says that nobody has the volume, and twice as long as the block says
/// otherwise. What is waited is no lateness of its own: the interval that others go by stays.
#[test]
fn one_mount_makes_the_next_wait_no_longer() {
    let spec = Spec::new(16 << 20, 1024).with("-O mmp");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    for is_clean in [true, true, false, false, false, true] {
        if !is_clean {
            let mut lost = mmp(&*store);
            lost.mmp_seq.set(OTHER);
            store.write(place(&*store), &lost.encode(&superblock(&*store))).expect("a write");
        }
        let patience = 2 * mmp(&*store).patience();
        let (waited, volume, clock) = timed(&store);
        assert_eq!(waited, if is_clean { 0 } else { patience });
        for _ in 0..6 {
            clock.advance(1_000_000_000);
            volume.step_until_idle().expect("steps");
        }
        assert_eq!(mmp(&*store).mmp_check_interval.get(), 10, "twice the interval of updates");
        volume.close().expect("close");
        assert_eq!((mmp(&*store).mmp_seq.get(), mmp(&*store).mmp_check_interval.get()), (SEQ_CLEAN, 10));
    }
}

#[test]
fn of_two_that_come_at_once_one_finds_out_with_its_next_update() {
    let spec = Spec::new(16 << 20, 1024).with("-O mmp");
    let store = Arc::new(RamStore::from_bytes(spec.make().expect("mke2fs")));
    let (_, volume, clock) = timed(&store);
    set_seq(&*store, OTHER);
    clock.advance(5_000_000_000);
    // The step says so, or only the log does: what counts is that nothing is written any more.
    drop(volume.step_until_idle());
    assert!(volume.write("/f", b"late").and_then(|()| volume.sync()).is_err());
    drop(volume);
    assert_eq!(mmp(&*store).mmp_seq.get(), OTHER, "it is still theirs");
}
