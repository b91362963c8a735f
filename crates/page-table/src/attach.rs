//! Finding the table of a pool, and bringing it into use: what is not committed is undone, then the map is read.

use crate::error::{Result, TableError};
use crate::format::{CONFIG_BYTES, Config, LogState, Part, Seal};
use crate::log::{Log, undone};
use crate::make::{COPIES, areas, write_config};
use crate::map::Map;
use crate::table::PageTable;
use ondol_medium::{Area, HeaderFault, Nvm, NvmError, Pool};
use std::collections::BTreeMap;

/// A table that was found, as it lies there.
pub(crate) struct Found {
    pub(crate) config: Config,
    pub(crate) seal: Seal,
    /// Copies of the configuration table that cannot be used: first byte, and why.
    pub(crate) bad_copies: Vec<(u64, HeaderFault)>,
}

type Copy = std::result::Result<Config, HeaderFault>;

/// Whether the pool has a table, damaged or not.
///
/// # Errors
/// The medium's failure.
pub fn has_table(pool: &Pool) -> Result<bool> {
    match find(pool) {
        Err(TableError::NoTable { .. }) => Ok(false),
        Err(TableError::Nvm(e)) => Err(e.into()),
        _ => Ok(true),
    }
}

/// Looks for the table of a pool. Changes nothing.
pub(crate) fn find(pool: &Pool) -> Result<Found> {
    let nvm = pool.nvm();
    let name = || nvm.name().to_owned();
    let Some([at, parts @ ..]) = areas(pool) else { return Err(TableError::NoTable { pool: name() }) };
    let read = |copy: u64| read_config(nvm, at.start + copy, parts);
    let [(is_empty, first), (_, second)] = [read(COPIES[0])?, read(COPIES[1])?];
    if is_empty {
        return Err(TableError::NoTable { pool: name() });
    }
    let copies = [first.clone(), second.clone()];
    let config = match (first, second) {
        (Err(what), _) | (_, Err(what)) if what.is_newer() => return Err(TableError::Newer { pool: name(), what }),
        (Ok(a), Ok(b)) if a != b => {
            let what = HeaderFault::Contents("the copies differ");
            return Err(TableError::Config { pool: name(), first: what.clone(), second: what });
        }
        (Ok(config), _) | (_, Ok(config)) => config,
        (Err(first), Err(second)) => return Err(TableError::Config { pool: name(), first, second }),
    };
    if config.pool != pool.header().uuid {
        return Err(TableError::Foreign { pool: name() });
    }
    let bad = COPIES.into_iter().zip(copies).filter_map(|(copy, read)| Some((at.start + copy, read.err()?)));
    Ok(Found { config, seal: Seal::new(config.uuid), bad_copies: bad.collect() })
}

/// A copy of the configuration table, and whether there is nothing but zeros.
fn read_config(nvm: &Nvm, at: u64, areas: [Area; 3]) -> Result<(bool, Copy)> {
    let mut bytes = [0; CONFIG_BYTES];
    match nvm.read(at, &mut bytes) {
        Ok(()) => {}
        Err(NvmError::Poisoned { offset, .. }) => return Ok((false, Err(HeaderFault::Lost(offset)))),
        Err(e) => return Err(e.into()),
    }
    let fits = |config: Config| match [config.map, config.log, config.data] == areas.map(Part::from) {
        true => Ok(config),
        false => Err(HeaderFault::Contents("the areas that it names are not those of the pool")),
    };
    Ok((bytes == [0; CONFIG_BYTES], Config::decode(&bytes).and_then(fits)))
}

impl PageTable {
    /// Brings the table of a pool into use: a copy of the configuration table that is damaged is written anew, a
    /// transaction that is not committed is undone, and the map is read. Of a pool that is open for reading only
    /// nothing is changed, and reads see what undoing would have left.
    ///
    /// # Errors
    /// `NoTable`, `Newer`, `Foreign`; `Config`, `Log`, `Map` where it is damaged, after which no block was changed; the
    /// medium's failure.
    pub fn attach(pool: &Pool) -> Result<Self> {
        let Found { config, seal, bad_copies } = find(pool)?;
        let nvm = pool.nvm();
        let log = Log { nvm, config: &config, seal };
        let found = log.read()?;
        let (mut entries, mut patched) = (BTreeMap::new(), BTreeMap::new());
        if nvm.is_read_only() {
            (entries, patched) = undone(nvm, &config, &found)?;
        } else {
            bad_copies.iter().try_for_each(|(at, _)| write_config(nvm, *at, &config))?;
            if found.state.open {
                log.undo(&found)?;
            }
        }
        let mut map = Map::read(nvm, &config, seal, &entries)?;
        if let Some(first) = std::mem::take(&mut map.faults).into_iter().next() {
            return Err(TableError::Map { pool: nvm.name().into(), first, count: map.fault_count });
        }
        let next = (found.state.number + 1) % LogState::NUMBERS;
        Ok(Self::new(nvm.clone(), config, map, next, patched))
    }
}
