//! Tools that change a volume which nobody has mounted, and what must hold of it wherever they are cut short.
//!
//! It is what it was after some step of the tools, or the tool that was under way takes it away, and it is refused;
//! then the same tools come to their end.

use crate::disks::{self, Disks};
use crate::dump::{self, Snapshot, Strictness};
use crate::image;
use crate::resizing;
use ondol::{Error, FormatOptions, JournalEngine, Media, NewSize, OpenOptions, Options, Tune, Volume, check_media};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::Env;
use ondol_env::sync::{Arc, Mutex};
use ondol_format::Superblock;
use ondol_format::superblock::STATE_ERROR;
use ondol_medium::Pool;
use ondol_power::Layer;
use ondol_volume::{Image, ResizeStep};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

/// A program that changes an image.
#[derive(Clone, Debug)]
pub enum Tool {
    /// Recovery.
    Recover,
    /// Recovery of what is damaged.
    RecoverByForce,
    /// The check, which takes the mark of errors away.
    Check,
    /// Another engine, data mode or size of the journal.
    Tune(Tune),
    /// Another size.
    Resize(NewSize),
    /// From one size, in bytes, to a larger one, while it is in use, with files in the space that is new.
    Grow(Range<u64>),
    /// A new volume over the old one; as in a file, or as on a device.
    Format {
        /// What is discarded holds zeros.
        is_file: bool,
    },
    /// This volume, exported over the old one, or imported into its pool.
    Export(Layer),
    /// Files that are copied into it.
    Copy,
    /// Its blocks go into the pages of their own numbers.
    Flatten,
    /// What is in its NVM pool alone is given up.
    Discard,
    /// An attempt to open these disks, which do not belong together.
    Mismatched(Vec<Layer>),
}

/// How far a tool is.
#[derive(Debug)]
pub enum Step {
    /// The volume has so many blocks.
    Blocks(u64),
    /// It holds this, which is not durable yet.
    Holds(Snapshot),
    /// What it holds is durable.
    Synced,
    /// A tool has ended.
    Ended,
}

/// What tools work on.
pub struct Place {
    media: Result<Media, String>,
    image: Option<Arc<dyn BlockStore>>,
    /// The pool that the image lies in, or is to.
    pool: Option<Arc<Mutex<Pool>>>,
}

impl From<Arc<dyn BlockStore>> for Place {
    fn from(image: Arc<dyn BlockStore>) -> Self {
        Self { media: Ok(image.clone().into()), image: Some(image), pool: None }
    }
}

impl Place {
    /// On these disks.
    pub fn on<S: BlockStore + 'static>(disks: &Disks<S>) -> Self {
        Self { media: disks.media().map_err(text), image: disks.image(), pool: disks.home_pool() }
    }

    fn media(&self) -> ondol::Result<Media> {
        self.media.clone().map_err(disks::damaged)
    }

    fn image(&self) -> ondol::Result<Arc<dyn BlockStore>> {
        self.image.clone().ok_or_else(|| disks::damaged("it has no image".into()))
    }

    /// Without the pool that only the log is in.
    fn alone(&self) -> ondol::Result<Media> {
        if self.pool.is_some() { self.media() } else { self.image().map(Media::image) }
    }

    fn open(&self) -> ondol::Result<Volume> {
        open(self.media()?)
    }

    /// Opens and closes it, as whoever comes after a crash.
    ///
    /// # Errors
    /// It cannot be recovered.
    pub fn recover(&self) -> Result<(), String> {
        self.open().and_then(Volume::close).map_err(text)
    }
}

fn open(media: Media) -> ondol::Result<Volume> {
    // What others made has other random numbers.
    Volume::open_stepped(media, &Options::default(), image::clock(OTHERS))
}

/// Seed of who comes after a crash.
const OTHERS: u64 = 0x07EE;

fn text(e: impl Display) -> String {
    e.to_string()
}

impl Tool {
    /// Until it has ended, the volume may be refused: it is damaged, or goes.
    fn may_be_refused(&self) -> bool {
        matches!(self, Self::RecoverByForce | Self::Format { .. } | Self::Export(_) | Self::Discard)
    }

    /// It changes nothing that a program sees of files.
    fn keeps_files(&self) -> bool {
        matches!(
            self,
            Self::Recover | Self::Check | Self::Tune(_) | Self::Resize(_) | Self::Flatten | Self::Mismatched(_)
        )
    }

    fn run(&self, place: &Place, tell: &mut dyn FnMut(Step)) -> ondol::Result<()> {
        let env = image::clock(2);
        match self {
            Self::Recover => place.open()?.close(),
            Self::RecoverByForce => ondol::recover_store_by_force(&place.image()?, env).map(drop),
            Self::Check => {
                place.open()?.close()?;
                match check_media(place.media()?)?.is_clean() {
                    true => Ok(Image::open(place.image()?)?.mark_checked(env.now())?),
                    false => Ok(()),
                }
            }
            Self::Tune(tune) => {
                place.open()?.close()?;
                ondol::tune_store(place.image()?, tune, env)
            }
            Self::Resize(to) => {
                let tell = &mut |step| {
                    if let ResizeStep::Blocks { now, .. } = step {
                        tell(Step::Blocks(now));
                    }
                };
                ondol::resize_media(&place.media()?, *to, env, tell).map(drop)
            }
            Self::Grow(sizes) => resizing::grow(place.image()?, place.open()?, sizes, tell),
            Self::Format { is_file } => {
                // Few writes, so that more of what may survive of them is tried.
                let features = if *is_file { "^resize_inode" } else { "^resize_inode,^orphan_file" };
                let options = FormatOptions::new().uuid([7; 16]).inodes(128).features(features);
                match &place.pool {
                    Some(pool) => {
                        let options = options.size(8 << 20).journal(JournalEngine::Swap);
                        ondol::format_pool(&mut pool.lock(), &options, &*env)
                    }
                    None => {
                        let options = options.block_size(1024).journal_size(1 << 20);
                        ondol::format_store(&*place.image()?, &options, *is_file, &*env)
                    }
                }
            }
            Self::Export(volume) => match &place.pool {
                Some(pool) => ondol::import_store(&*store(volume), &mut pool.lock(), &*env),
                None => ondol::export_media(store(volume).into(), &*place.image()?, false),
            },
            Self::Copy => copy(place.open()?, tell),
            Self::Mismatched(disks) => match Place::on(&disks::stores(disks)).recover() {
                Ok(()) => Err(disks::damaged("disks of different times were taken for one volume".into())),
                Err(_) => Ok(()),
            },
            Self::Flatten => {
                place.open()?.close()?;
                let pool = place.pool.as_ref().ok_or_else(|| disks::damaged("it lies in no pool".into()))?;
                ondol::pool::flatten_pool(&pool.lock()).map(drop)
            }
            Self::Discard => match ondol::discard_nvm_of(&place.alone()?, || Ok(None)) {
                // It has nothing there any more, and can be recovered without.
                Err(Error::State { .. }) => open(place.alone()?)?.close(),
                discarded => discarded.map(drop),
            },
        }
    }
}

fn store(image: &Layer) -> Arc<dyn BlockStore> {
    Arc::new(LayerStore::new(image.clone()))
}

/// As far as there is room.
fn copy(volume: Volume, tell: &mut dyn FnMut(Step)) -> ondol::Result<()> {
    for name in ["/copied", "/copied too"] {
        let file = match OpenOptions::new().write(true).create(true).truncate(true).open(&volume, name) {
            Err(e) if e.kind() == std::io::ErrorKind::StorageFull => break,
            file => file?,
        };
        tell(Step::Holds(dump::of_volume(volume.inodes())?));
        match file.write_at(&[7; 3000], 0) {
            Err(e) if e.kind() == std::io::ErrorKind::StorageFull => break,
            written => written?,
        };
        tell(Step::Holds(dump::of_volume(volume.inodes())?));
    }
    volume.close()
}

/// What a volume is, once it is recovered.
#[derive(Clone, Debug)]
pub struct Found {
    blocks: u64,
    /// It says that it has errors.
    has_errors: bool,
    /// What our check has to note.
    notes: usize,
    seen: Arc<Snapshot>,
}

/// What a volume is after a step; it may be refused after none.
#[derive(Clone, Debug)]
pub struct Stage {
    found: Option<Found>,
    /// So many tools have ended.
    ended: usize,
    /// It is durable.
    is_durable: bool,
}

/// A volume, and the tools that are to change it.
#[derive(Clone, Debug)]
pub struct Tooled {
    /// Which of them.
    pub name: String,
    /// What it lies on.
    pub disks: Vec<Layer>,
    tools: Vec<Tool>,
    /// What it is at first, and after each step.
    stages: Vec<Stage>,
}

impl Tooled {
    /// Tries the tools once.
    ///
    /// # Errors
    /// They fail, or there is nothing that they could be held against.
    pub fn new(name: &str, disks: Vec<Layer>, tools: Vec<Tool>) -> Result<Self, String> {
        let found = look(&disks)?;
        if let Some(what) = found.as_ref().err().filter(|_| !tools[0].may_be_refused()) {
            return Err(format!("{name}: {what}"));
        }
        let first = Stage { found: found.ok(), ended: 0, is_durable: true };
        let mut made = Self { name: name.to_owned(), stages: vec![first], disks, tools };
        let (stores, mut stages, tooled) = (disks::stores(&made.disks), made.stages.clone(), made.clone());
        let mut last = Ok(());
        let tell = &mut |step| {
            let Some(Stage { found, ended, .. }) = stages.last().cloned() else { return };
            stages.push(match (step, found) {
                (Step::Ended, _) => {
                    let found = tooled.look(&stores.layers()).and_then(|found| found);
                    last = found.as_ref().map(drop).map_err(Clone::clone);
                    Stage { found: found.ok(), ended: ended + 1, is_durable: true }
                }
                (Step::Blocks(blocks), found) => {
                    Stage { found: found.map(|found| Found { blocks, ..found }), ended, is_durable: true }
                }
                (Step::Synced, found) => Stage { found, ended, is_durable: true },
                (Step::Holds(seen), found) => {
                    let found = found.map(|found| Found { seen: Arc::new(seen), ..found });
                    Stage { found, ended, is_durable: false }
                }
            });
        };
        made.run(0, &Place::on(&stores), tell).map_err(|e| format!("{name}: {e}"))?;
        last.map_err(|e| format!("{name}: {e}"))?;
        made.stages = stages;
        Ok(made)
    }

    /// Runs the tools from this one on. There may be no room for a journal of another size. `tell` is told of each
    /// step when it is done.
    ///
    /// # Errors
    /// Theirs.
    pub fn run(&self, from: usize, place: &Place, tell: &mut dyn FnMut(Step)) -> Result<(), String> {
        for tool in &self.tools[from..] {
            match tool.run(place, tell) {
                Ok(()) => tell(Step::Ended),
                Err(Error::State { .. }) if matches!(tool, Tool::Tune(_)) => tell(Step::Ended),
                Err(e) => return Err(format!("{tool:?} fails: {e}")),
            }
        }
        Ok(())
    }

    /// Runs them as [`Tooled::run`], and tells of the number of each step that is durable.
    ///
    /// # Errors
    /// As [`Tooled::run`].
    pub fn run_marked(&self, place: &Place, mark: &mut dyn FnMut(u64)) -> Result<(), String> {
        let mut stage = 0;
        self.run(0, place, &mut |_| {
            stage += 1;
            if self.stages.get(stage).is_some_and(|stage| stage.is_durable) {
                mark(stage as u64);
            }
        })
    }

    /// The steps after which it may be, where this one is the last that is known to be durable.
    pub fn allowed(&self, done: usize) -> RangeInclusive<usize> {
        let next = (done + 1..self.stages.len()).find(|stage| self.stages[*stage].is_durable);
        done..=next.unwrap_or(done)
    }

    /// Any step.
    pub fn any(&self) -> RangeInclusive<usize> {
        0..=self.stages.len() - 1
    }

    /// Whether a volume may be refused while the tool is under way that comes after this step.
    pub fn may_be_refused_after(&self, stage: usize) -> bool {
        self.tools.get(self.stages[stage].ended).is_some_and(Tool::may_be_refused)
    }

    /// Whether it may be refused at any time.
    pub fn is_ever_refused(&self) -> bool {
        self.tools.iter().any(Tool::may_be_refused)
    }

    /// Whether what is in NVM alone is given up. It is marked as one with errors before, and what comes to be home
    /// meanwhile stays.
    fn discards(&self) -> bool {
        self.tools.iter().any(|tool| matches!(tool, Tool::Discard))
    }

    /// As [`look`], also without its NVM once that may be given up.
    fn look(&self, disks: &[Layer]) -> Result<Result<Found, String>, String> {
        match look(disks)? {
            Err(_) if self.discards() && !disks::is_home_pool(disks) => look(&disks[..1]),
            found => Ok(found),
        }
    }

    /// Whether it was made to be refused.
    pub fn is_refused_at_first(&self) -> bool {
        self.stages[0].found.is_none()
    }

    /// Whether it never says that it has errors.
    pub fn is_sound(&self) -> bool {
        self.stages.iter().all(|stage| stage.found.as_ref().is_some_and(|found| !found.has_errors))
    }

    /// Whether what was found after this step is also what is found after one of these.
    pub fn is_same_as_one_of(&self, stage: usize, of: &RangeInclusive<usize>) -> bool {
        let Some(found) = &self.stages[stage].found else { return false };
        of.clone().any(|stage| self.differences(stage, found).is_empty())
    }

    /// Where its tools only change how files are stored, all of them are there at the end.
    ///
    /// # Errors
    /// They are not.
    pub fn keeps_files(&self) -> Result<(), String> {
        let seen = |stage: Option<&Stage>| Some(stage?.found.as_ref()?.seen.clone());
        let both = seen(self.stages.first()).zip(seen(self.stages.last()));
        let Some((first, last)) = both.filter(|_| self.tools.iter().all(Tool::keeps_files)) else { return Ok(()) };
        let lines = first.differences(&last, Strictness::Whole);
        if lines.is_empty() { Ok(()) } else { Err(format!("files have changed:\n    {}", lines.join("\n    "))) }
    }

    /// After which step recovered disks are, of those that are allowed. Where the tool that is under way takes the
    /// volume away, it may be refused: then the tools come to their end from there.
    ///
    /// # Errors
    /// After none of them, and why.
    pub fn judge(&self, disks: &[Layer], allowed: &RangeInclusive<usize>) -> Result<Option<usize>, String> {
        let found = match self.look(disks)? {
            Ok(found) => found,
            Err(_) if self.may_be_refused_after(*allowed.start()) => {
                return self.goes_on(disks, *allowed.start()).map(|_| None);
            }
            Err(what) => return Err(format!("cannot be recovered: {what}")),
        };
        self.after_one_of(allowed, &found).map(Some)
    }

    fn after_one_of(&self, allowed: &RangeInclusive<usize>, found: &Found) -> Result<usize, String> {
        let stages = allowed.clone().map(|stage| (stage, self.differences(stage, found)));
        let mut wrong = format!("after {} of its steps, or those up to {}:", allowed.start(), allowed.end());
        for (stage, lines) in stages {
            if lines.is_empty() {
                return Ok(stage);
            }
            wrong += &format!("\n  after {stage} calls:\n    {}", lines.join("\n    "));
        }
        Err(wrong)
    }

    fn differences(&self, stage: usize, found: &Found) -> Vec<String> {
        let Some(want) = &self.stages[stage].found else { return vec!["it should be refused".to_owned()] };
        let mut lines = Vec::new();
        if want.blocks != found.blocks {
            lines.push(format!("{} blocks, expected {}", found.blocks, want.blocks));
        }
        if want.has_errors != found.has_errors && !(self.discards() && found.has_errors) {
            lines.push(format!("it says that it has errors: {}, expected {}", found.has_errors, want.has_errors));
        }
        if found.notes > want.notes {
            lines.push(format!("our check has {} notes, expected {}", found.notes, want.notes));
        }
        lines.extend(want.seen.differences(&found.seen, Strictness::Whole));
        lines
    }

    /// The tools go on after this step, and come to the same as without a crash; what is there then.
    ///
    /// # Errors
    /// They do not.
    pub fn goes_on(&self, disks: &[Layer], stage: usize) -> Result<Vec<Layer>, String> {
        let stores = disks::stores(disks);
        // At least the last: whoever saw the power go calls it again.
        let from = self.stages[stage].ended.min(self.tools.len() - 1);
        self.run(from, &Place::on(&stores), &mut |_| ()).map_err(|e| format!("again: {e}"))?;
        let (last, left) = (self.stages.len() - 1, stores.layers());
        // Of what was going home, parts are there: e2fsck mends that.
        if self.discards() && superblock(&left)?.raw().s_state.get() & STATE_ERROR != 0 {
            return Ok(left);
        }
        let mut found =
            self.look(&left).and_then(|found| found).map_err(|e| format!("again, and cannot be recovered: {e}"))?;
        // The least is an estimate, and may be less the second time.
        let is_least = matches!(self.tools.last(), Some(Tool::Resize(NewSize::Least)));
        if let Some(want) = self.stages[last].found.as_ref().filter(|want| is_least && found.blocks < want.blocks) {
            found.blocks = want.blocks;
        }
        let first = if self.discards() { 0 } else { last };
        self.after_one_of(&(first..=last), &found).map_err(|e| format!("again: {e}"))?;
        Ok(left)
    }

    /// As [`Tooled::goes_on`], and e2fsck has nothing to say then, or mends it where the volume says that it has
    /// errors.
    ///
    /// # Errors
    /// It does not, or has.
    pub fn ends_well(&self, disks: &[Layer], stage: usize) -> Result<(), String> {
        let left = disks::images(&self.goes_on(disks, stage)?).map_err(text)?;
        let left: Vec<Vec<u8>> = left.iter().map(Layer::to_bytes).collect();
        let last = self.stages.last().and_then(|stage| stage.found.as_ref());
        let has_errors = last.is_some_and(|last| last.has_errors);
        if has_errors {
            let mended = image::repair(&left[0]).map_err(text)?.1;
            let verdict = image::check(&mended).map_err(text)?;
            return if verdict.is_clean() { Ok(()) } else { Err(format!("mended by e2fsck: {}", verdict.output)) };
        }
        let verdict = image::check(image::Disks::of(&left)).map_err(text)?;
        if verdict.is_clean() { Ok(()) } else { Err(verdict.output) }
    }
}

/// What disks hold, recovered on a copy, or why they cannot be.
///
/// # Errors
/// They can be, and what comes out is not whole, and does not say itself that it has errors.
fn look(disks: &[Layer]) -> Result<Result<Found, String>, String> {
    let stores = disks::stores(disks);
    let place = Place::on(&stores);
    if let Err(refusal) = place.recover() {
        return Ok(Err(refusal));
    }
    let media = place.media().map_err(text)?;
    let sb = superblock(&stores.layers())?;
    let (has_errors, blocks) = (sb.raw().s_state.get() & STATE_ERROR != 0, sb.blocks_count());
    let checked = check_media(&media).map_err(text)?;
    if !has_errors && !checked.is_clean() {
        return Err(format!("our check finds {:?}", checked.problems));
    }
    let reading = Options::default().with_read_only(true);
    let volume = Volume::open_stepped(media, &reading, image::clock(OTHERS)).map_err(text)?;
    let seen = Arc::new(dump::of_volume(volume.inodes()).map_err(text)?);
    Ok(Ok(Found { blocks, has_errors, notes: checked.notes.len(), seen }))
}

fn superblock(disks: &[Layer]) -> Result<Superblock, String> {
    let image = Place::on(&disks::stores(disks)).image();
    image.and_then(|image| Ok(Image::open(image)?)).map(|image| image.superblock().clone()).map_err(text)
}
