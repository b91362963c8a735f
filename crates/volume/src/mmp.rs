//! Multiple mount protection: a volume is mounted by one machine at a time.
//!
//! Whoever mounts it writes a number of its own into the MMP block and changes it every few seconds. Whoever finds a
//! number there waits until its holder must have changed it, and goes away if it has. The block is never journaled
//! (kernel: `Documentation/filesystems/ext4/mmp.rst`). Where the block says that nobody has the volume, nobody waits,
//! as in the kernel; so of two that come at once, one finds out with its next update.

use crate::image::corrupt;
use crate::{Error, Image, Result};
use ondol_block::BlockStore;
use ondol_env::sync::{Arc, Mutex};
use ondol_env::{Env, Progress};
use ondol_format::mmp::{
    MAX_CHECK_INTERVAL, MIN_CHECK_INTERVAL, RawMmp, SEQ_CLEAN, SEQ_FSCK, SEQ_MAX, SIZE, UPDATE_INTERVAL, next_seq,
};
use ondol_format::{Incompat, Superblock};
use std::time::Duration;

/// The hold on a volume.
pub struct Mmp {
    store: Arc<dyn BlockStore>,
    sb: Superblock,
    env: Arc<dyn Env>,
    state: Mutex<State>,
}

struct State {
    mmp: RawMmp,
    /// Monotonic nanoseconds of the last update.
    updated: u64,
    released: bool,
}

const SECOND: u64 = 1_000_000_000;

impl Image {
    /// Makes sure that nobody has the volume mounted, waiting up to some 11 seconds (as the MMP block says) where that
    /// is not clear. Writes nothing.
    ///
    /// # Errors
    /// `InUse` by another mount or a check; corruption.
    pub fn require_unused(&self, env: &dyn Env) -> Result<()> {
        self.found_unused(env).map(drop)
    }

    /// As [`Image::require_unused`], with the block that was found, if there is one.
    fn found_unused(&self, env: &dyn Env) -> Result<Option<RawMmp>> {
        if !self.sb.has_incompat(Incompat::MMP) {
            return Ok(None);
        }
        let found = read(&*self.store, &self.sb)?;
        match found.mmp_seq.get() {
            SEQ_CLEAN => return Ok(Some(found)),
            SEQ_FSCK => {
                return Err(self.in_use(&found, "a check of it is running, or was killed (`tune2fs -f -E clear_mmp`)"));
            }
            _ => {}
        }
        tracing::info!("{}: waiting {} s to see whether somebody has it mounted", self.name(), found.patience());
        env.sleep(Duration::from_secs(found.patience()));
        let now = read(&*self.store, &self.sb)?;
        if now.mmp_seq == found.mmp_seq { Ok(Some(found)) } else { Err(self.in_use(&now, "it is mounted there")) }
    }

    fn in_use(&self, mmp: &RawMmp, why: &str) -> Error {
        let (node, device) = mmp.holder();
        Error::InUse(format!("{} is in use on {node} as {device}: {why}", self.name()))
    }

    /// Takes hold of the volume for writing, if it is protected. `node` and `device` tell others who holds it.
    ///
    /// # Errors
    /// `InUse`; corruption; the store's failure.
    pub fn take_hold(&self, env: Arc<dyn Env>, node: &[u8], device: &[u8]) -> Result<Option<Arc<Mmp>>> {
        let Some(found) = self.found_unused(&*env)? else { return Ok(None) };
        let mut mmp = found;
        mmp.mmp_seq.set(env.random_u32() % SEQ_MAX + 1);
        mmp.set_holder(node, device);
        let hold = Mmp {
            store: self.store.clone(),
            sb: self.sb.clone(),
            state: Mutex::new(State { mmp, updated: 0, released: false }),
            env,
        };
        hold.write(&mut hold.state.lock())?;
        // Somebody else may have found it free at the same time; the one who wrote last stays. Others wait as long as
        // this one does, since the interval is still the one that was found.
        if found.mmp_seq.get() != SEQ_CLEAN {
            hold.env.sleep(Duration::from_secs(found.patience()));
        }
        let now = read(&*self.store, &self.sb)?;
        {
            let mut state = hold.state.lock();
            if now.mmp_seq != state.mmp.mmp_seq {
                return Err(self.in_use(&now, "it is being mounted there"));
            }
            // What was waited is no lateness: the updates begin here.
            hold.update(&mut state, 0)?;
        }
        Ok(Some(Arc::new(hold)))
    }
}

impl Mmp {
    /// Says again that the volume is in use, if it is time. To be called every second or so.
    ///
    /// # Errors
    /// `InUse` when somebody else has taken it: nothing may be written any more. The store's failure.
    pub fn keep(&self) -> Result<Progress> {
        let mut state = self.state.lock();
        let age = self.env.monotonic_ns().saturating_sub(state.updated) / SECOND;
        if state.released || age < u64::from(self.interval()) {
            return Ok(Progress::Idle);
        }
        // Others may have thought that nobody is here, or have come at the same time.
        self.require_mine(&state)?;
        self.update(&mut state, age)?;
        Ok(Progress::Worked)
    }

    /// Seconds between updates.
    fn interval(&self) -> u16 {
        match self.sb.raw().s_mmp_interval.get() {
            0 => UPDATE_INTERVAL,
            seconds => seconds.min(MAX_CHECK_INTERVAL),
        }
    }

    /// Says that the volume is in use, so many seconds after it was said last.
    fn update(&self, state: &mut State, age: u64) -> Result<()> {
        let late = (2 * age).clamp(u64::from(MIN_CHECK_INTERVAL), u64::from(MAX_CHECK_INTERVAL)) as u16;
        let usual = self.interval().saturating_mul(2);
        state.mmp.mmp_check_interval.set(late.max(usual).min(MAX_CHECK_INTERVAL));
        let next = next_seq(state.mmp.mmp_seq.get());
        state.mmp.mmp_seq.set(next);
        self.write(state)
    }

    fn require_mine(&self, state: &State) -> Result<()> {
        let found = read(&*self.store, &self.sb)?;
        if found.mmp_seq == state.mmp.mmp_seq {
            return Ok(());
        }
        let (node, device) = found.holder();
        Err(Error::InUse(format!("{} has been taken by {node} as {device}", self.store.name())))
    }

    /// Lets go of the volume, which has been unmounted cleanly or could not be opened.
    ///
    /// # Errors
    /// `InUse` when somebody else has taken it, whose mark stays; the store's failure.
    pub fn release(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.released = true;
        self.require_mine(&state)?;
        state.mmp.mmp_seq.set(SEQ_CLEAN);
        self.write(&mut state)
    }

    fn write(&self, state: &mut State) -> Result<()> {
        state.updated = self.env.monotonic_ns();
        state.mmp.mmp_time.set(self.env.now().sec.max(0) as u64);
        self.store.write(offset(&self.sb)?, &state.mmp.encode(&self.sb))?;
        Ok(self.store.flush()?)
    }
}

fn offset(sb: &Superblock) -> Result<u64> {
    let block = sb.mmp_block().filter(|&block| sb.contains_blocks(&(block..block.saturating_add(1))));
    let block = block.ok_or_else(|| Error::corrupt("superblock", 0, "its MMP block cannot lie there"))?;
    Ok(block * u64::from(sb.block_size()))
}

fn read(store: &dyn BlockStore, sb: &Superblock) -> Result<RawMmp> {
    let mut bytes = [0; SIZE];
    let at = offset(sb)?;
    store.read(at, &mut bytes)?;
    RawMmp::parse(sb, &bytes).map_err(|e| corrupt(at / u64::from(sb.block_size()), &e))
}
