//! Rules of the page table that an image in a pool lies under.
//!
//! - *page*: when a block gets another page, all that was stored to the page is durable.
//! - *twice*: a block gets no page that a durable entry of another block names, but in an open transaction.
//! - *undo*: while a transaction is open, only entries are stored whose old words its durable records have.
//! - *over*: no page is stored to that a durable entry names, but bytes of which a durable record has the old ones.
//!   With engine `remap` pages of metadata are written in place, so this does not apply.
//! - *open*, *closed*: a transaction is open once its records are durable, and closed once its changes are.
//!
//! `docs/format.md` has the bytes.

use super::nvm::{long, word};
use ondol_medium::{AreaKind, PAGE, Pool};
use ondol_power::{Cut, Event, Item, Kind, LINE, Medium};
use ondol_testkit::disks::nvm;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Bytes of an entry of the map.
const ENTRY: u64 = 8;
/// The kind of undo record that has entries; the other has bytes of a page.
const ENTRIES: u8 = 1;

/// Judges the page table of the pool that is the first medium, at each event of a run.
///
/// # Errors
/// The rule that is broken, and by what.
pub(super) fn judge(media: &[Medium], is_in_place: bool, events: &[Event]) -> Result<(), String> {
    if media[0].kind != Kind::Nvm {
        return Ok(());
    }
    let Some(mut judge) = TableJudge::of(media, is_in_place) else { return Ok(()) };
    events.iter().enumerate().try_for_each(|(n, event)| judge.event(event).map_err(|what| super::at(n, &what)))
}

/// What a transaction can undo.
#[derive(Default)]
struct Undo {
    blocks: BTreeSet<u64>,
    /// First bytes in the pool, and how many.
    bytes: Vec<(u64, u64)>,
}

struct TableJudge<'m> {
    map: Range<u64>,
    log: Range<u64>,
    data: Range<u64>,
    is_in_place: bool,
    cut: Cut<'m>,
    /// The durable page of each block that has one, and the block of each such page.
    pages: HashMap<u64, u64>,
    blocks: HashMap<u64, u64>,
    /// Blocks whose entries are stored and may not be durable.
    changed: BTreeSet<u64>,
    /// Of the transaction that is open.
    undo: Option<Undo>,
}

impl<'m> TableJudge<'m> {
    fn of(media: &'m [Medium], is_in_place: bool) -> Option<Self> {
        let pool = Pool::open(nvm(&media[0].base).ok()?).ok()?;
        let area = |kind| pool.area(kind).map(|area| area.start..area.start + area.len);
        let [map, log, data] = [AreaKind::PAGE_MAP, AreaKind::PAGE_LOG, AreaKind::PAGE_DATA].map(area);
        let (map, cut) = (map?, Cut::new(media));
        let changed = (0..(map.end - map.start) / ENTRY).collect();
        let (pages, blocks) = (HashMap::new(), HashMap::new());
        let mut judge = Self { map, log: log?, data: data?, is_in_place, cut, pages, blocks, changed, undo: None };
        judge.follow();
        judge.changed.clear();
        Some(judge)
    }

    fn event(&mut self, event: &'m Event) -> Result<(), String> {
        if let Event::Store { medium: 0, offset, bytes, .. } = event {
            match offset {
                at if self.map.contains(at) => self.entries(*at, bytes)?,
                at if *at == self.log.start => self.state(bytes)?,
                at if self.data.contains(at) => self.page(*at, bytes.len() as u64)?,
                _ => {}
            }
        }
        self.cut.advance(event);
        if let Event::Fence { .. } = event {
            self.follow();
        }
        Ok(())
    }

    /// Takes over entries that are durable by now.
    fn follow(&mut self) {
        let Self { map, cut, pages, blocks, changed, .. } = self;
        changed.retain(|block| {
            let mut entry = [0; ENTRY as usize];
            cut.durable()[0].read((map.start + block * ENTRY) as usize, &mut entry);
            if let Some(page) = pages.remove(block)
                && blocks.get(&page) == Some(block)
            {
                blocks.remove(&page);
            }
            if let Some(page) = u64::from(word(&entry, 0).unwrap_or(0)).checked_sub(1) {
                pages.insert(*block, page);
                blocks.insert(page, *block);
            }
            cut.items().iter().any(|item| is_in(item, &(map.start + block * ENTRY..map.start + (block + 1) * ENTRY)))
        });
    }

    fn entries(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        for (block, entry) in ((at - self.map.start) / ENTRY..).zip(bytes.chunks_exact(ENTRY as usize)) {
            self.changed.insert(block);
            if self.undo.is_some() && self.line(0)[0] & 1 == 0 {
                return Err(format!(
                    "undo: the entry of block {block} is stored, and its transaction is not open, durably"
                ));
            }
            if self.undo.as_ref().is_some_and(|undo| !undo.blocks.contains(&block)) {
                return Err(format!(
                    "undo: the entry of block {block} is stored, and no durable record of the open transaction has it"
                ));
            }
            let page = u64::from(word(entry, 0).unwrap_or(0)).checked_sub(1);
            let Some(page) = page.filter(|page| self.pages.get(&block) != Some(page)) else { continue };
            let start = self.data.start + page * PAGE;
            if self.cut.items().iter().any(|item| is_in(item, &(start..start + PAGE))) {
                return Err(format!("page: block {block} gets page {page}, and what was stored there is not durable"));
            }
            let other = self.blocks.get(&page).filter(|other| self.undo.is_none() && **other != block);
            if let Some(other) = other {
                return Err(format!(
                    "twice: block {block} gets page {page}, which the durable entry of block {other} names"
                ));
            }
        }
        Ok(())
    }

    fn page(&self, at: u64, len: u64) -> Result<(), String> {
        let page = (at - self.data.start) / PAGE;
        let can_undo = |undo: &Undo| undo.bytes.iter().any(|(from, count)| *from <= at && at + len <= from + count);
        match self.blocks.get(&page) {
            Some(block) if !self.is_in_place && !self.undo.as_ref().is_some_and(can_undo) => Err(format!(
                "over: page {page} is stored to, which the durable entry of block {block} names, and no record has \
                 what it held"
            )),
            _ => Ok(()),
        }
    }

    fn state(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(state) = word(bytes, 0) else { return Ok(()) };
        if state & 1 == 0 {
            let undo = self.undo.take().unwrap_or_default();
            let entries =
                undo.blocks.iter().map(|block| self.map.start + block * ENTRY..self.map.start + (block + 1) * ENTRY);
            let bytes = undo.bytes.iter().map(|(from, count)| *from..from + count);
            let mut changes = entries.chain(bytes);
            let is_on_its_way = |change: &Range<u64>| self.cut.items().iter().any(|item| is_in(item, change));
            return match changes.find(is_on_its_way) {
                Some(change) => Err(format!(
                    "closed: transaction {} is closed, and its change of byte {} is not durable",
                    state >> 1,
                    change.start
                )),
                None => Ok(()),
            };
        }
        let records = self.log.start + LINE as u64..self.log.end;
        if self.cut.items().iter().any(|item| is_in(item, &records)) {
            return Err(format!("open: transaction {} is open, and its records are not durable", state >> 1));
        }
        self.undo = Some(self.records());
        Ok(())
    }

    /// A durable line of the log.
    fn line(&self, line: u64) -> [u8; LINE] {
        let mut bytes = [0; LINE];
        self.cut.durable()[0].read((self.log.start + line * LINE as u64) as usize, &mut bytes);
        bytes
    }

    /// What the durable records have.
    fn records(&self) -> Undo {
        let (mut undo, mut line, mut total) = (Undo::default(), 1, 1);
        let lines = (self.log.end - self.log.start) / LINE as u64;
        while line <= total && line < lines {
            let head = self.line(line);
            let count = u64::from(u16::from_le_bytes([head[6], head[7]]));
            let number = |at| u64::from(word(&head, at).unwrap_or(0));
            total = number(16);
            if head[4] == ENTRIES {
                undo.blocks.extend((0..count.min(2) as usize).filter_map(|n| long(&head, 24 + 16 * n)));
                line += 1;
            } else {
                undo.bytes.push((self.data.start + number(24) * PAGE + number(28), count));
                line += (32 + count).div_ceil(LINE as u64);
            }
        }
        undo
    }
}

/// Whether something that is on its way touches bytes of the pool.
fn is_in(item: &Item<'_>, bytes: &Range<u64>) -> bool {
    matches!(item, Item::Line { medium: 0, line, .. } if {
        let start = line * LINE as u64;
        start < bytes.end && bytes.start < start + LINE as u64
    })
}
