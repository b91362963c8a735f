//! What tools begin with: volumes as a crash left them, with removed files that are open, nearly full, or damaged.

use super::fast;
use crate::explore::Limits;
use crate::image::Kind;
use crate::log::Log;
use crate::prey::Prey;
use crate::run::Run;
use crate::subject::Subject;
use crate::workload::{self, Mount, Workload, full};
use ondol::{DataMode, JournalEngine, NewSize, Tune};
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::RawSuperblock;
use ondol_format::superblock::STATE_ERROR;
use ondol_medium::Domain;
use ondol_power::{Cut, Layer};
use ondol_testkit::disks;
use ondol_testkit::op::text;
use ondol_testkit::resizing;
use ondol_testkit::tooled::{Tool, Tooled};
use zerocopy::FromBytes;

/// What `--workload` calls some of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Volumes that get another size, large enough that much moves.
    Resize,
    /// Each tool, from each start.
    Tools,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Resize, Self::Tools];

    /// As `--workload` names it, and a hunt its phase.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resize => "resize",
            Self::Tools => "tools",
        }
    }

    /// The names of its members.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::Resize => resizing::names().map(str::to_owned).collect(),
            Self::Tools => {
                let of = |tool: &str, starts: &[&str]| starts.iter().map(|s| format!("{tool}-{s}")).collect::<Vec<_>>();
                let fast = AFTER_FAST.iter().flat_map(|tool| of(tool, &[FAST]));
                TOOLS
                    .iter()
                    .flat_map(|tool| of(tool, &STARTS))
                    .chain(of(FORCE, &DAMAGED))
                    .chain(fast)
                    .chain(MISMATCHED.map(str::to_owned))
                    .collect()
            }
        }
    }
}

const TOOLS: [&str; 14] = [
    "recover",
    "check",
    "tune",
    "tune-journal",
    "shrink",
    "grow",
    "mkfs",
    "mkfs-file",
    "mkfs-pool",
    "export",
    "import",
    "copy",
    "flatten",
    "discard",
];

/// In each the log was not recovered.
const STARTS: [&str; 3] = ["crashed", "orphans", "full"];

/// Fast commits follow the log, and these tools.
const FAST: &str = "fast";

const AFTER_FAST: [&str; 3] = ["recover", "check", "copy"];

const FORCE: &str = "force";

/// An image and a pool of different times are opened, before the volume is recovered.
const MISMATCHED: [&str; 2] = ["mismatched-image", "mismatched-pool"];

const DAMAGED: [&str; 4] = ["log", "units", "journal", "orphan-list"];

/// In which volumes, the seed says.
const KINDS: [Kind; 10] = [
    Kind::Small,
    Kind::Clusters,
    Kind::OrphanFile,
    Kind::InlineData,
    Kind::BlockMap,
    Kind::Values,
    Kind::JournalDevice,
    Kind::LargeInodes,
    Kind::Linear,
    Kind::Pool,
];

/// Removed files that are open, and one without a name.
const ORPHANS: [&str; 2] = [
    "create /a 0644\nwrite /a 0 40000 #1\ncreate /b 0644\nwrite /b 0 9000 #2\nmkdir /d 0755\ncreate /d/c 0644\n\
     write /d/c 0 7000 #3\nopen @0 /a\nopen @1 /b",
    "unlink /a\nunlink /b\ntmpfile @2 /d 0600\nwrite @2 0 5000 #4\nsync\nwrite @0 1000 4000 #5\nappend /d/c 3000 #6\n\
     sync",
];

/// Hardly anything is free.
const FULL: [&str; 2] = [
    full!("48K"),
    "unlink /hole\nsync\nwrite /b 0 20000 #1\nmkdir /d 0755\nsymlink /d/s target\nsync\nwrite /b 20000 9000 #2\n\
     fsync /b",
];

/// Several transactions that are in the log alone.
const LOGGED: [&str; 2] = [
    "create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644\nopen @0 /b\nwrite /b 0 3000 #7\nsync",
    "mkdir /d 0755\nsync\ncreate /d/b 0600\nwrite /d/b 0 5000 #2\nsync\nchmod /a 0600\nunlink /b\nsync\n\
     rename /a /d/c\nsync\nappend /d/c 4000 #3\nsync",
];

/// As [`LOGGED`], with what fast commits tell of.
const LOGGED_FAST: [&str; 2] = [
    "create /a 0644\nwrite /a 0 9000 #1\ncreate /b 0644\nwrite /b 0 3000 #7\nsync",
    "mkdir /d 0755\nsync\ncreate /d/c 0600\nwrite /d/c 0 5000 #2\nsync\nchmod /a 0600\nsync",
];

/// Makes one of [`Family::names`]. Equal seeds make equal ones.
///
/// # Errors
/// There is none; mke2fs is missing, or the volume fails without any crash.
pub fn make(family: Family, name: &str, seed: u64) -> Result<Tooled, String> {
    if family == Family::Resize {
        return resizing::make(name);
    }
    let place = family.names().iter().position(|one| one == name).ok_or_else(|| format!("no such tool: {name}"))?;
    let kind = KINDS[(place as u64 + seed) as usize % KINDS.len()];
    let random = Fixed::new(Timestamp::default(), seed.rotate_left(8) ^ place as u64);
    if let Some(damage) = name.strip_prefix(FORCE).and_then(|rest| rest.strip_prefix('-')) {
        return damaged(name, damage, &random);
    }
    let start = STARTS.into_iter().chain([FAST]).find(|start| name.ends_with(start)).unwrap_or_default();
    let tool = name.strip_suffix(start).unwrap_or_default().trim_end_matches('-');
    if MISMATCHED.contains(&name) {
        return mismatched(name, kind);
    }
    // The others refuse a journal that is elsewhere, or take no notice of it.
    let kind = match (tool, kind) {
        // In a pool, and so large that another one with its reserve fits.
        ("mkfs-pool" | "import" | "flatten", _) => Kind::WideLog,
        ("discard", kind) if place.is_multiple_of(2) || kind == Kind::Pool => Kind::WideLog,
        ("recover" | "check" | "copy", _) => kind,
        ("grow" | "mkfs" | "mkfs-file" | "export", Kind::Pool) | (_, Kind::JournalDevice) => Kind::Small,
        _ => kind,
    };
    let engines = match (tool, kind) {
        ("discard", Kind::WideLog) => &[JournalEngine::Remap][..],
        ("discard", _) => &[JournalEngine::Scalable],
        (_, Kind::WideLog) => &[JournalEngine::Remap, JournalEngine::Swap],
        ("recover" | "check" | "tune" | "copy", _) if kind != Kind::Pool => {
            &[JournalEngine::Classic, JournalEngine::Compressed, JournalEngine::Scalable]
        }
        _ => &BLOCK_ENGINES,
    };
    if tool == "discard" {
        return given_up(name, start, kind, engines, &random);
    }
    let mut disks = match start {
        FAST => fast_committed()?,
        _ => dirty(start, kind, engines, &random)?,
    };
    let tools = match tool {
        "check" if kind != Kind::Pool => {
            noted_errors(&mut disks[0]);
            vec![Tool::Check]
        }
        "grow" => {
            let mut bytes = disks[0].to_bytes();
            bytes.resize(bytes.len() + (3 << 20), 0);
            disks[0] = Layer::new(bytes);
            vec![Tool::Resize(NewSize::Whole)]
        }
        "tune" => vec![
            Tool::Tune(Tune {
                journal: Some(JournalEngine::Compressed),
                data: Some(DataMode::Journal),
                ..Tune::default()
            }),
            Tool::Tune(Tune { journal: Some(JournalEngine::Classic), ..Tune::default() }),
        ],
        "tune-journal" => {
            let sized = |kib: u64| Tool::Tune(Tune { journal_size: Some(kib << 10), ..Tune::default() });
            vec![sized(1200), sized(1024)]
        }
        "shrink" => vec![Tool::Resize(NewSize::Least)],
        "check" => vec![Tool::Check],
        "mkfs" | "mkfs-file" | "mkfs-pool" => vec![Tool::Format { is_file: tool == "mkfs-file" }],
        "export" => vec![Tool::Export(dirty("orphans", Kind::Small, &BLOCK_ENGINES, &random)?.remove(0))],
        "import" => vec![Tool::Export(filled()?)],
        "copy" => vec![Tool::Copy],
        "flatten" => vec![Tool::Flatten],
        _ => vec![Tool::Recover],
    };
    Tooled::new(name, disks, tools)
}

const BLOCK_ENGINES: [JournalEngine; 2] = [JournalEngine::Classic, JournalEngine::Compressed];

/// The log was not recovered, and fast commits follow it.
fn fast_committed() -> Result<Vec<Layer>, String> {
    // Only this one has a log that is long enough without the blocks that they take.
    let run = recorded(LOGGED_FAST, Kind::WideLog, JournalEngine::Classic)?;
    let mut disks = Cut::after(&run.media, &run.events).everything();
    fast::add(&mut disks[0])?;
    Ok(disks)
}

/// The image, or the pool, is a copy of an earlier time.
fn mismatched(name: &str, kind: Kind) -> Result<Tooled, String> {
    let kind = if matches!(kind, Kind::Pool | Kind::JournalDevice) { Kind::Small } else { kind };
    let run = recorded(
        [LOGGED[0], &format!("write /a 500 700 #5\nsync\nremount\n{}", LOGGED[1])],
        kind,
        JournalEngine::Scalable,
    )?;
    let disks = Cut::after(&run.media, &run.events).everything();
    let older = run.media.iter().map(|medium| medium.base.clone()).collect::<Vec<_>>();
    let mixed = match name {
        "mismatched-image" => vec![older[0].clone(), disks[1].clone()],
        _ => vec![disks[0].clone(), older[1].clone()],
    };
    Tooled::new(name, disks, vec![Tool::Mismatched(mixed), Tool::Recover])
}

/// What is in NVM alone is given up, of a volume that can be looked at without it.
fn given_up(name: &str, start: &str, kind: Kind, engines: &[JournalEngine], random: &Fixed) -> Result<Tooled, String> {
    let mut why = String::new();
    for _ in 0..20 {
        match Tooled::new(name, dirty(start, kind, engines, random)?, vec![Tool::Discard]) {
            // One that had nothing there is not marked.
            Ok(made) if !made.is_sound() => return Ok(made),
            Ok(_) => {}
            Err(e) => why = e,
        }
    }
    Err(format!("{name}: without its log none can be looked at; at last {why}"))
}

/// Disks as a crash left them.
fn dirty(start: &str, kind: Kind, engines: &[JournalEngine], random: &Fixed) -> Result<Vec<Layer>, String> {
    let engine = engines[random.random_u32() as usize % engines.len()];
    let run = match start {
        "orphans" => recorded(ORPHANS, kind, engine)?,
        "full" => recorded(FULL, kind, engine)?,
        _ => {
            let mut workload = workload::random(random.random_u32().into()).next().ok_or("nothing random")?;
            (workload.image, workload.mount) = (kind, Mount::Tight);
            record(&workload, engine)?
        }
    };
    let events = run.events.len();
    let happened =
        if start == "crashed" { events - random.random_u32() as usize % (events / 2).max(1) } else { events };
    let cut = Cut::after(&run.media, &run.events[..happened]);
    let left = match cut.combinations() {
        Some(all) => cut.build(&cut.combination(random.random_u32() as usize % all)),
        None => cut.everything(),
    };
    // It holds what the model says: tools are held against what it is once it is recovered.
    run.judge(&run.recover(&left)?, happened)?;
    Ok(left)
}

/// An image that a pool has room for, with a log that was not recovered.
fn filled() -> Result<Layer, String> {
    let layers = recorded(LOGGED, Kind::Pool, JournalEngine::Classic)?.media;
    disks::images(&[layers[0].base.clone()]).map(|mut images| images.remove(0)).map_err(|e| e.to_string())
}

/// A run of calls, behind those that come before it.
fn recorded([before, calls]: [&str; 2], image: Kind, engine: JournalEngine) -> Result<Run, String> {
    let parse = |calls| text::parse(calls).map_err(|e| e.to_string());
    let (before, calls) = (parse(before)?, parse(calls)?);
    let (name, mount) = ("what tools begin with".to_owned(), Mount::Tight);
    record(&Workload { name, image, mount, before, remount: false, calls, others: None }, engine)
}

fn record(workload: &Workload, engine: JournalEngine) -> Result<Run, String> {
    let (data, limits, domain) = (DataMode::Ordered, Limits::default(), Domain::Adr);
    let prey = Prey { engine, data, plant: None, seed: 1, limits, fault: None, domain, store: None };
    prey.record(&workload.image.make()?, workload)
}

/// A volume that recovery refuses, and that is recovered by force.
fn damaged(name: &str, damage: &str, random: &Fixed) -> Result<Tooled, String> {
    let engine = if damage == "units" { JournalEngine::Compressed } else { JournalEngine::Classic };
    // The list's head is not in that log, which would mend it.
    let calls = if damage == "orphan-list" { ["", LOGGED[0]] } else { LOGGED };
    let run = recorded(calls, Kind::Small, engine)?;
    let left = Cut::after(&run.media, &run.events).everything();
    let slots = Log::of(&left)?.slots;
    let block_size = Kind::Small.block_size();
    let mut why = String::new();
    // One of the first blocks of the log behind its superblock is such that what follows is lost.
    for _ in 0..50 {
        let mut disks = left.clone();
        let mut flip = |at: u64| {
            let mut byte = [0];
            disks[0].read(at as usize, &mut byte);
            disks[0].write(at as usize, &[byte[0] ^ 1 << (random.random_u32() % 8)]);
        };
        match damage {
            "orphan-list" => superblock(&mut disks[0], |raw| raw.s_last_orphan.set(5)),
            "journal" => flip(slots[0].0 * block_size + 0xFC),
            _ => {
                let slot = 1 + random.random_u32() as usize % 40;
                flip(slots[slot].0 * block_size + u64::from(random.random_u32()) % block_size);
            }
        }
        match Tooled::new(name, disks, vec![Tool::RecoverByForce]) {
            Ok(made) if made.is_refused_at_first() => return Ok(made),
            Ok(_) => {}
            Err(e) => why = e,
        }
    }
    Err(format!("{name}: no such damage is found; at last {why}"))
}

fn noted_errors(image: &mut Layer) {
    superblock(image, |raw| raw.s_state.set(raw.s_state.get() | STATE_ERROR));
}

pub(super) fn superblock(image: &mut Layer, edit: impl FnOnce(&mut RawSuperblock)) {
    let mut bytes = [0; 1024];
    image.read(1024, &mut bytes);
    if let Ok(raw) = RawSuperblock::mut_from_bytes(&mut bytes) {
        edit(raw);
        raw.seal();
    }
    image.write(1024, &bytes);
}
