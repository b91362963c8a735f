//! The invariants of a table as a function: the copies of the configuration agree, the log is sound, every entry checks
//! itself and is in its range, and no two name one page.

use crate::attach::find;
use crate::error::{Result, TableError};
use crate::flatten::Flatness;
use crate::log::{Log, undone_entries};
use crate::map::Map;
use ondol_medium::Pool;

/// What a table is found to be. Numbers of blocks and pages, 4096 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// UUID of the table.
    pub uuid: [u8; 16],
    /// Blocks of the image.
    pub blocks: u64,
    /// Pages of the data area.
    pub pages: u64,
    /// Blocks that have a page.
    pub mapped: u64,
    /// How far the map is from the identity.
    pub flatness: Flatness,
    /// Lines of 64 bytes that the undo records of one transaction can have.
    pub log_lines: u64,
    /// A transaction is open: attaching undoes it. Counted here is what it leaves.
    pub open: bool,
    /// What breaks the rules, one line each, up to a thousand entries of the map.
    pub problems: Vec<String>,
}

/// Checks the table of a pool. Changes nothing.
///
/// # Errors
/// There is no table, or one of a format that is not known; the medium's failure.
pub fn check(pool: &Pool) -> Result<TableReport> {
    let found = match find(pool) {
        Ok(found) => found,
        Err(e @ (TableError::Config { .. } | TableError::Foreign { .. })) => {
            return Ok(TableReport { problems: vec![e.to_string()], ..TableReport::default() });
        }
        Err(e) => return Err(e),
    };
    let (nvm, config) = (pool.nvm(), found.config);
    let mut problems = Vec::new();
    for (at, what) in &found.bad_copies {
        problems.push(format!("the configuration table's copy at byte {at}: {what}; attaching mends it"));
    }
    let (mut open, mut instead) = (false, std::collections::BTreeMap::new());
    match (Log { nvm, config: &config, seal: found.seal }).read() {
        Ok(log) => {
            open = log.state.open;
            instead = undone_entries(&log);
        }
        Err(e @ TableError::Log { .. }) => problems.push(e.to_string()),
        Err(e) => return Err(e),
    }
    let map = Map::read(nvm, &config, found.seal, &instead)?;
    problems.extend(map.faults.iter().map(ToString::to_string));
    Ok(TableReport {
        uuid: config.uuid,
        blocks: config.blocks,
        pages: config.pages,
        mapped: map.pages.iter().filter(|page| **page > 0).count() as u64,
        flatness: Flatness::of(&map.pages),
        log_lines: config.log_lines(),
        open,
        problems,
    })
}
