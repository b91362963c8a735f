//! The drain: syncs the files of running programs for real, and gives the room of their records back.

use crate::client::wall_ns;
use crate::error::{Result, RunLogError};
use crate::format::{SlotKey, shared, slot};
use crate::lock;
use crate::look::Identity;
use crate::slot::Slot;
use crate::{Log, recover};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;

/// How old live records may be: nanoseconds.
const AGE_NS: u64 = 1_000_000_000;

/// Syncs files for real. One process of all that use a pool does it at a time; another takes over when that is gone.
#[derive(Debug)]
pub struct Drain<F: Files = System> {
    log: Log,
    me: u64,
    system: F,
    files: HashMap<SlotKey, F::File>,
    /// Removed before they could be opened: they are not looked for again.
    gone: HashSet<SlotKey>,
    /// Not to be found where their file system could not be synced: said once.
    lost: HashSet<SlotKey>,
    /// Heads of lanes that a step in haste has left where they were: what lies there cannot be synced.
    stuck: HashMap<u32, u64>,
    /// Devices whose file system could not be synced as a whole.
    broken: HashSet<u64>,
    /// Files that had live records at the last step.
    live: usize,
    /// Processes that had let go of the pool before, and programs that were started without the library.
    before: [u64; 2],
}

/// Where files are found and synced: the [`System`], or what stands for it in a test.
pub trait Files {
    /// An open file.
    type File;
    /// From so many files on, everything on their file system is synced at once.
    const MANY: usize;

    /// Whether records that are live since then, in nanoseconds of the wall's clock, are to be synced.
    fn is_old(&mut self, since: u64) -> bool;

    /// Looks for a file on a device.
    fn find(&mut self, dev: u64, identity: &Identity) -> Sought<Self::File>;

    /// Whether a file lies on this device. A copy of its file system may lie over it.
    fn is_on(&self, file: &Self::File, dev: u64) -> bool;

    /// Makes a file durable.
    ///
    /// # Errors
    /// The disk's, which the kernel tells an open file once.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Makes everything durable on the file system of an open file, or of a directory beside one that is not open;
    /// none if nothing of it can be opened.
    fn sync_all(&mut self, dev: u64, open: Option<&Self::File>, named: &[&Identity]) -> Option<rustix::io::Result<()>>;

    /// A step is over: what was looked up for it may be other by the next.
    fn forget(&mut self) {}
}

/// What became of a file that was looked for.
#[derive(Debug)]
pub enum Sought<F> {
    /// It is open.
    Here(F),
    /// It was removed.
    Gone,
    /// Nobody knows.
    Unknown,
}

/// The file systems that are mounted.
#[derive(Debug, Default)]
pub struct System {
    /// What is mounted, by device: of one step, if it had to find files.
    trees: BTreeMap<u64, recover::Trees<'static>>,
}

impl System {
    fn trees(&mut self, dev: u64) -> &recover::Trees<'static> {
        self.trees.entry(dev).or_insert_with(|| recover::Trees::on(dev))
    }
}

impl Files for System {
    type File = File;
    const MANY: usize = 32;

    fn is_old(&mut self, since: u64) -> bool {
        wall_ns() >= since.saturating_add(AGE_NS)
    }

    fn find(&mut self, dev: u64, identity: &Identity) -> Sought<File> {
        match self.trees(dev).find(identity, recover::For::Sync) {
            recover::Place::Here(file, _) => Sought::Here(file),
            recover::Place::Gone => Sought::Gone,
            recover::Place::Hidden(_) | recover::Place::Unknown(_) => Sought::Unknown,
        }
    }

    fn is_on(&self, file: &File, dev: u64) -> bool {
        rustix::fs::fstat(file).is_ok_and(|stat| stat.st_dev == dev)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_all(&mut self, dev: u64, open: Option<&File>, named: &[&Identity]) -> Option<rustix::io::Result<()>> {
        match open {
            Some(file) => Some(rustix::fs::syncfs(file)),
            None => {
                let beside = named.iter().find_map(|identity| self.trees(dev).beside(identity, dev));
                beside.map(rustix::fs::syncfs)
            }
        }
    }

    fn forget(&mut self) {
        self.trees.clear();
    }
}

/// A file that is to be synced.
struct Due<F> {
    key: SlotKey,
    /// What was in the page cache before anything is synced for it.
    last: u64,
    /// Device number when it was opened: a copy of a file system has its identity, too.
    dev: u64,
    identity: Identity,
    file: Option<F>,
}

/// What a step has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Files that were synced.
    pub synced: u64,
    /// Files that have live records still.
    pub live: u64,
    /// There is not much room: the next step should come soon.
    pub pressed: bool,
    /// Processes that have let go of the pool since this drain began.
    pub left: u64,
    /// Programs that were started without the library since then.
    pub unfit: u64,
    /// Why files could not be synced, one line each; said once.
    pub failed: Vec<String>,
}

/// How many processes have let go of the pool, and how many programs were started without the library.
fn counts(log: &Log) -> Result<[u64; 2]> {
    let count = |word| log.nvm.shared().load_u64(log.shared(word));
    Ok([count(shared::LEFT)?, count(shared::UNFIT)?])
}

impl Drain {
    /// A process that will drain.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn new(log: Log) -> Result<Self> {
        Self::over(log, System::default())
    }
}

impl<F: Files> Drain<F> {
    /// As [`Drain::new`], with files of another system.
    ///
    /// # Errors
    /// The medium's failure.
    pub fn over(log: Log, system: F) -> Result<Self> {
        let me = u64::from(std::process::id()) << 32 | log.token()?;
        let before = counts(&log)?;
        Ok(Self {
            log,
            before,
            me,
            system,
            files: HashMap::new(),
            gone: HashSet::new(),
            lost: HashSet::new(),
            stuck: HashMap::new(),
            broken: HashSet::new(),
            live: 0,
        })
    }

    /// Syncs every file whose records are a second old, or all if `now`, or if a lane is a quarter full. Does nothing
    /// while another process drains.
    ///
    /// # Errors
    /// The medium's failure, or that a word in the pool is damaged.
    pub fn step(&mut self, now: bool) -> Result<Drained> {
        let stepped = self.steps(now);
        self.system.forget();
        if matches!(stepped, Err(RunLogError::Nvm(_))) {
            // Whoever begins later is not told by the kernel.
            self.log.stop()?;
        }
        stepped
    }

    fn steps(&mut self, now: bool) -> Result<Drained> {
        let log = self.log.clone();
        let [left, unfit] = counts(&log)?;
        let (left, unfit) = (left.saturating_sub(self.before[0]), unfit.saturating_sub(self.before[1]));
        let mut drained = Drained { left, unfit, ..Drained::default() };
        let Some(_held) = lock::try_lock(&log.nvm, log.shared(shared::DRAIN_LOCK), self.me) else { return Ok(drained) };
        let mut pressed = now;
        let mut full = HashSet::new();
        for lane in log.lanes() {
            let (used, len) = lane.used()?;
            if used > len / 4 {
                full.insert(lane.index);
                pressed |= self.stuck.get(&lane.index) != Some(&lane.head().durable()?);
            }
        }
        // Others find no slot then.
        pressed |= self.live > log.header.slots as usize / 2;
        self.live = 0;
        drained.pressed = pressed;
        let mut by_system = BTreeMap::<(u64, u64), Vec<Due<F::File>>>::new();
        for slot in log.slots() {
            let incarnation = slot.load(slot::NAMED)?;
            if !slot.is_live()? {
                self.files.retain(|key, _| key.index != slot.index);
                self.gone.retain(|key| key.index != slot.index);
                continue;
            }
            self.live += 1;
            let key = SlotKey { index: slot.index, incarnation };
            if !self.files.contains_key(&key) && !self.gone.contains(&key) {
                // While it has its name still: a file that is removed can be synced like any other then.
                let named = slot.identity()?.filter(|(named, ..)| *named == incarnation);
                let file = named.and_then(|(_, dev, identity)| self.open(key, dev, &identity));
                self.files.extend(file.map(|file| (key, file)));
            }
            let due = pressed || self.system.is_old(slot.load(slot::SINCE)?);
            let due = if due && !slot.has_failed()? && !self.lost.contains(&key) {
                self.due(&slot, incarnation)?
            } else {
                None
            };
            match due {
                Some(due) => by_system.entry((due.dev, due.identity.fsid)).or_default().push(due),
                None => drained.live += 1,
            }
        }
        for ((dev, _), files) in by_system {
            self.sync(dev, files, &mut drained)?;
        }
        for lane in log.lanes() {
            let head = lane.head().durable()?;
            lane.advance()?;
            if pressed && full.contains(&lane.index) && lane.head().durable()? == head {
                self.stuck.insert(lane.index, head);
            }
        }
        Ok(drained)
    }

    /// Opens a file, if it can be found.
    fn open(&mut self, key: SlotKey, dev: u64, identity: &Identity) -> Option<F::File> {
        match self.system.find(dev, identity) {
            Sought::Here(file) => Some(file),
            Sought::Gone => {
                self.gone.insert(key);
                None
            }
            Sought::Unknown => None,
        }
    }

    /// A file that is to be synced, open if it can be found; none if nobody knows which it is.
    fn due(&mut self, slot: &Slot<'_>, incarnation: u64) -> Result<Option<Due<F::File>>> {
        let key = SlotKey { index: slot.index, incarnation };
        let last = slot.load(slot::LAST)?;
        let Some((_, dev, identity)) = slot.identity()?.filter(|(named, ..)| *named == incarnation) else {
            return Ok(None);
        };
        let found = self.files.remove(&key);
        let file = if self.gone.contains(&key) { found } else { found.or_else(|| self.open(key, dev, &identity)) };
        let file = file.filter(|file| self.system.is_on(file, dev));
        Ok(Some(Due { key, last, dev, identity, file }))
    }

    /// Syncs files of one file system and retires what was in the page cache before that: each by itself, or everything
    /// on the file system where there are many, or where one cannot be found: its names are gone, or it has others that
    /// we cannot know. The loss of a name is synced, too.
    fn sync(&mut self, dev: u64, files: Vec<Due<F::File>>, drained: &mut Drained) -> Result<()> {
        let missing = files.iter().any(|due| due.file.is_none());
        let broken = self.broken.contains(&dev);
        let whole = if broken {
            missing.then_some(Err(Errno::IO))
        } else if missing || files.len() >= F::MANY {
            let open = files.iter().find_map(|due| due.file.as_ref());
            let named: Vec<_> = files.iter().map(|due| &due.identity).collect();
            self.system.sync_all(dev, open, &named)
        } else {
            None
        };
        if matches!(whole, Some(Err(_))) {
            // The kernel tells it once, and not of which file: from now on each is asked by itself.
            self.broken.insert(dev);
        }
        for mut due in files {
            let synced = match (due.file.take(), whole) {
                (file, Some(Ok(()))) => Ok(file),
                // Whose fault it is.
                (Some(file), _) => self.system.sync(&file).map(|()| Some(file)),
                (None, Some(Err(e))) => {
                    self.lose(&due, e, drained)?;
                    continue;
                }
                (None, None) => {
                    drained.live += 1;
                    continue;
                }
            };
            let synced = synced.map(|file| self.files.extend(file.map(|file| (due.key, file))));
            self.synced(&due, synced, drained)?;
        }
        Ok(())
    }

    /// A file cannot be found, nor its file system be synced as a whole: whether it is on the disk its program's own
    /// syncs will tell.
    fn lose(&mut self, file: &Due<F::File>, e: Errno, drained: &mut Drained) -> Result<()> {
        self.log.slot(file.key.index).give_up()?;
        self.lost.insert(file.key);
        drained.live += 1;
        let path = file.identity.path.display();
        drained.failed.push(format!(
            "{path}: not found, and its file system cannot be synced: {e}; recovering the pool writes its bytes again"
        ));
        Ok(())
    }

    /// A file was synced for real, or could not be.
    fn synced(&mut self, file: &Due<F::File>, synced: io::Result<()>, drained: &mut Drained) -> Result<()> {
        let slot = self.log.slot(file.key.index);
        let Err(e) = synced else {
            drained.synced += 1;
            return slot.retire(file.key.incarnation, file.last);
        };
        // The kernel has told this descriptor and will not again: a sync that succeeds now, by whomever, would prove
        // nothing.
        slot.fail(file.key.incarnation)?;
        drained.live += 1;
        let path = file.identity.path.display();
        drained.failed.push(format!(
            "{path}: cannot be synced: {e}; its fsync fails until recovering the pool has brought its bytes home"
        ));
        Ok(())
    }
}
