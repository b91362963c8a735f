//! NVM pools: making them, looking at them, measuring them, and putting what lies in them in order. What is serialised
//! here is what `--json` of the commands prints.

mod flatten;
mod given_up;
mod measure;

use crate::machine::{claim, pools};
use crate::words::uuid_text;
use crate::{Error, Result, home};
use ondol_block::BlockStore;
use ondol_env::{Env, System};
use ondol_medium::{
    Access, Header, HeaderFault, Instructions, Nvm, NvmError, NvmOptions, PoolReport, PoolSpec, inspect,
};
use ondol_volume::contents;
use serde::Serialize;
use std::path::Path;

pub use flatten::{FlattenedPool, flatten, flatten_pool};
pub use given_up::{GivenUp, GivenUpChanges, GivenUpImage};
pub use measure::{Cost, MeasureOptions, PoolCosts, measure};
pub use ondol_medium::{Domain, DomainError, ModelError, NvmModel};

/// How a pool is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    size: Option<u64>,
    domain: Domain,
    force: bool,
}

impl CreateOptions {
    /// The whole medium, with the persistence domain that it is found to have.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of the pool. A file is made, or extended, to hold them.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// The persistence domain that the pool is used with from now on.
    #[must_use]
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = domain;
        self
    }

    /// Makes the pool even where the medium holds something, and gives that up.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }
}

/// A pool's description.
#[derive(Clone, Debug, Serialize)]
pub struct PoolInfo {
    /// The pool, as the user named it.
    pub pool: String,
    /// What it is made of.
    pub medium: &'static str,
    /// The persistence domain.
    pub domain: &'static str,
    /// Which crashes the medium survives.
    pub survives: String,
    /// How this processor writes lines back.
    pub write_back: &'static str,
    /// UUID.
    pub uuid: String,
    /// Version of the format.
    pub version: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes that belong to no area.
    pub free: u64,
    /// Changes of the header so far.
    pub generation: u64,
    /// Attaches so far.
    pub epoch: u64,
    /// UUID of the volume that it is attached to.
    pub volume: Option<String>,
    /// Areas, by their place.
    pub areas: Vec<AreaInfo>,
    /// The copies of the header.
    pub headers: Vec<HeaderInfo>,
    /// First bytes of lines that the medium has lost, as far as the kernel says.
    pub lost_lines: Vec<u64>,
    /// The page table of the image that lies in it, if one does.
    pub table: Option<home::TableInfo>,
    /// The log of a volume in object storage, if there is one: `durable=local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_log: Option<crate::LocalLogState>,
    /// Files with writes that only the pool has, of programs under `ondol run`.
    pub run_files: Vec<crate::run::FileInfo>,
}

/// An area of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct AreaInfo {
    /// What it is for.
    pub kind: String,
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// A copy of a pool's header.
#[derive(Clone, Debug, Serialize)]
pub struct HeaderInfo {
    /// First byte.
    pub offset: u64,
    /// `intact`, or what is wrong with it.
    pub state: String,
}

/// What lies in a pool, as bytes.
#[derive(Clone, Debug)]
pub struct PoolDump {
    /// The pool's description; why there is none, if its header cannot be used.
    pub info: std::result::Result<PoolInfo, String>,
    /// The two headers, then the areas.
    pub heads: Vec<Head>,
}

/// The first bytes of a header or an area.
#[derive(Clone, Debug)]
pub struct Head {
    /// What it is.
    pub title: String,
    /// First byte.
    pub offset: u64,
    /// The bytes, or why they cannot be read.
    pub bytes: std::result::Result<Vec<u8>, String>,
}

/// How much of a header or area a dump shows.
const HEAD: u64 = 256;

/// Makes a pool.
///
/// # Errors
/// The medium is in use, holds something, is too small, or cannot have the persistence domain.
pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<PoolInfo> {
    let path = path.as_ref();
    let existed = path.try_exists().unwrap_or(true);
    let made = make(path, options);
    if made.is_err() && !existed {
        // What is left of a file that nobody had.
        let _ = std::fs::remove_file(path);
    }
    made?;
    info(path)
}

fn make(path: &Path, options: &CreateOptions) -> Result<()> {
    if !options.force && path.is_file() {
        // Before it is extended: what is refused stays as it is.
        let store = claim::look(path)?;
        if let Some(what) = contents::of(&store)? {
            let target = store.name().to_owned();
            drop(store);
            return Err(also(path, Error::holds(target, what)));
        }
    }
    let opened = NvmOptions { domain: options.domain, ..NvmOptions::default() };
    let nvm = match options.size {
        Some(size) => pools::create(path, size, &opened)?,
        None => pools::open(path, &opened)?,
    };
    let spec = PoolSpec {
        uuid: System.random_uuid(),
        size: options.size.unwrap_or(0),
        domain: options.domain,
        areas: Vec::new(),
        force: options.force,
    };
    ondol_medium::Pool::create(nvm, &spec)?;
    Ok(())
}

/// Describes the pool at `path`, which nobody may have open for writing. Changes nothing.
///
/// # Errors
/// It is in use, or is no pool that this program can use, by name.
pub fn info(path: impl AsRef<Path>) -> Result<PoolInfo> {
    let (nvm, report) = look(path.as_ref(), Domain::Auto)?;
    let header = report.header(nvm.name(), nvm.size())?.clone();
    drop(nvm);
    match look(path.as_ref(), header.domain) {
        Ok((nvm, _)) => {
            let described = describe(&nvm, &report, &header, nvm.describe().into());
            let run_files = crate::run::files(nvm)?;
            let home_log = crate::bucket::local_log_in_pool(path.as_ref())?;
            Ok(PoolInfo { run_files, home_log, table: home::table_in(path.as_ref())?, ..described })
        }
        // A copy of a pool need not be on a medium of the same kind.
        Err(Error::Nvm(e @ NvmError::Domain { .. })) => {
            let (nvm, _) = look(path.as_ref(), Domain::Auto)?;
            Ok(describe(&nvm, &report, &header, e.to_string()))
        }
        Err(e) => Err(e),
    }
}

/// What a file holds besides, where it is a pool that is attached to a volume; and what helps.
pub(crate) fn also(path: &Path, holds: Error) -> Error {
    let changes = GivenUp::in_pool(path).ok().and_then(|given_up| given_up.changes);
    match (holds, changes) {
        (Error::Holds { target, what, .. }, Some(changes)) => {
            Error::holds(target, format!("{what}, with {}", changes.in_the_way())).helped(changes.remedy())
        }
        (holds, _) => holds,
    }
}

fn look(path: &Path, domain: Domain) -> Result<(Nvm, PoolReport)> {
    let nvm = pools::open(path, &NvmOptions { access: Access::Read, domain, ..NvmOptions::default() })?;
    let report = inspect(&nvm)?;
    Ok((nvm, report))
}

fn describe(nvm: &Nvm, report: &PoolReport, header: &Header, survives: String) -> PoolInfo {
    let used: u64 = header.areas.iter().map(|a| a.len).sum();
    PoolInfo {
        pool: nvm.name().into(),
        medium: nvm.kind().name(),
        domain: if header.domain == Domain::Auto { nvm.domain().name() } else { header.domain.name() },
        survives,
        write_back: Instructions::detect().name(),
        uuid: uuid_text(&header.uuid),
        version: ondol_medium::POOL_VERSION,
        size: header.size,
        free: header.size.saturating_sub(used + ondol_medium::AREAS_START),
        generation: header.generation,
        epoch: header.epoch,
        volume: header.volume.as_ref().map(uuid_text),
        areas: header.areas.iter().map(|a| AreaInfo { kind: a.kind.to_string(), start: a.start, len: a.len }).collect(),
        headers: copies(report, Some(header)).map(|(offset, state)| HeaderInfo { offset, state }).collect(),
        lost_lines: nvm.poison().all(),
        table: None,
        home_log: None,
        run_files: Vec::new(),
    }
}

fn copies(report: &PoolReport, counts: Option<&Header>) -> impl Iterator<Item = (u64, String)> {
    let state = move |copy: &std::result::Result<Header, HeaderFault>| match (copy, counts) {
        (Ok(header), Some(counts)) if header == counts => "intact".into(),
        (Ok(header), _) => format!("of generation {}", header.generation),
        (Err(fault), Some(_)) => format!("{fault}; the next use mends it from the other"),
        (Err(fault), None) => fault.to_string(),
    };
    ondol_medium::HEADERS.into_iter().zip(&report.copies).map(move |(offset, copy)| (offset, state(copy)))
}

/// Shows the headers and the first bytes of each area of the pool at `path`, damaged or not. Changes nothing.
///
/// # Errors
/// It is in use, or has no header of a pool at all.
pub fn dump(path: impl AsRef<Path>) -> Result<PoolDump> {
    let path = path.as_ref();
    let (nvm, report) = look(path, Domain::Auto)?;
    if report.copies.iter().all(|c| *c == Err(HeaderFault::NoSignature)) {
        report.header(nvm.name(), nvm.size())?;
    }
    let header = report.header(nvm.name(), nvm.size()).ok();
    let head = |title: String, offset: u64, len: u64| {
        let mut bytes = vec![0; len.min(HEAD) as usize];
        let read = nvm.read(offset, &mut bytes).map(|()| bytes);
        Head { title, offset, bytes: read.map_err(|e| e.to_string()) }
    };
    let headers = copies(&report, header).map(|(offset, state)| head(format!("header: {state}"), offset, HEAD));
    let mut heads: Vec<Head> = headers.collect();
    let areas = header.map(|h| h.areas.as_slice()).unwrap_or_default();
    heads.extend(areas.iter().map(|a| head(format!("area {}: {} bytes", a.kind, a.len), a.start, a.len)));
    Ok(PoolDump { info: info(path).map_err(|e| e.to_string()), heads })
}
