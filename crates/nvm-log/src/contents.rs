//! What a log holds when it is found: after a crash, or left behind.
//!
//! One pass over the ring finds the lines of commits; their numbers must be without a gap. Between two of them
//! everything must be whole but what the later one passes over. No commit line is durable before what it commits, so
//! whatever is missing below a commit that is there is damage, and no crash.

use crate::area::{Area, Found, RING_AT};
use crate::error::{Damage, Fault, LogError, Result};
use crate::format::{LIMIT, LINE, Seal, Tail};
use crate::pages::PageArea;
use crate::ring::Span;
use ondol_env::Env;
use ondol_medium::{AreaKind, Pool};
use std::ops::Range;

/// What to do where something that was committed is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Say so, and change nothing.
    Refuse,
    /// Go on with what lies before it.
    GoOn,
}

/// A commit, and the records that it has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its number: one more than that of the commit before.
    pub number: u64,
    /// Position of its line.
    pub position: u64,
    /// When it was made, in nanoseconds since 1970.
    pub time: u64,
    /// Positions of the records, in their order.
    pub records: Vec<u64>,
}

/// What a log holds.
#[derive(Debug)]
pub struct Contents {
    area: Area,
    pages: Option<PageArea>,
    tail: Tail,
    commits: Vec<Commit>,
    on_damage: OnDamage,
    damage: Option<Damage>,
    /// No position from here on was ever used.
    unused: u64,
}

impl Contents {
    /// Finds what is committed in the log of a pool, and verifies it. Where there is no log yet an empty one is made; a
    /// damaged copy of its header or tail is written anew.
    ///
    /// # Errors
    /// `NoArea`, `Small`, `Newer`, `Header`, `Tail`, `Foreign`; `Damaged` with [`OnDamage::Refuse`]; the memory's
    /// failure.
    pub fn open(pool: &Pool, env: &dyn Env, on_damage: OnDamage) -> Result<Self> {
        let (area, tail) = match Area::find(pool, env.random_uuid())? {
            Found::Nothing(area) => {
                let tail = area.make()?;
                (area, tail)
            }
            Found::Log(area, tail) => (area, tail),
        };
        let found = Self::read_all(area, PageArea::of(pool, AreaKind::JOURNAL_PAGES), tail, on_damage)?;
        found.area.mend(found.tail)?;
        Ok(found)
    }

    /// The same, without changing anything. `None`: there is no log yet.
    ///
    /// # Errors
    /// As for [`Contents::open`].
    pub fn inspect(pool: &Pool, on_damage: OnDamage) -> Result<Option<Self>> {
        match Area::find(pool, [0; 16])? {
            Found::Nothing(_) => Ok(None),
            Found::Log(area, tail) => {
                Self::read_all(area, PageArea::of(pool, AreaKind::JOURNAL_PAGES), tail, on_damage).map(Some)
            }
        }
    }

    /// Makes what the log of a pool holds, and its header, nothing: whoever opens it next makes a new one. Durable when
    /// this returns.
    ///
    /// # Errors
    /// The memory's failure.
    pub fn erase(pool: &Pool) -> Result<()> {
        let Some(area) = pool.area(AreaKind::JOURNAL_LOG) else { return Ok(()) };
        // Without its first header it is no log, whatever else is there.
        for len in [LINE, area.len.min(RING_AT)] {
            let mut batch = pool.nvm().stored();
            batch.zero(area.start, len)?;
            batch.write_back().fence()?;
        }
        Ok(())
    }

    /// The same log, whose records name pages of the page table in its pool, and none of an area of their own.
    #[must_use]
    pub fn over_table(self, pool: &Pool) -> Self {
        Self { pages: PageArea::of(pool, AreaKind::PAGE_DATA), ..self }
    }

    /// The pages that records may name, if the pool has any.
    pub fn pages(&self) -> Option<&PageArea> {
        self.pages.as_ref()
    }

    /// The commits, in their order.
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// What to do where something is missing.
    pub fn on_damage(&self) -> OnDamage {
        self.on_damage
    }

    /// What is missing, with [`OnDamage::GoOn`].
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Puts a record behind what is in `into`, and says where its contents lie in there, with the zeros behind them if
    /// there are any.
    ///
    /// # Errors
    /// `NoRecord`; the memory's failure; `into` is as it was then.
    pub fn read(&self, position: u64, into: &mut Vec<u8>) -> Result<Range<usize>> {
        let record = self.area.read_record(position, into)?;
        record.ok_or_else(|| LogError::NoRecord { pool: self.area.name().into(), position })
    }

    /// Makes it empty, durably: everything in it is durable elsewhere.
    pub(crate) fn forget(self) -> Result<(Area, Option<PageArea>, Tail)> {
        // Records that no commit has covered lie behind the last one. Their positions must not come again: with new
        // commits around them they would count.
        let position = self.unused;
        if position >= LIMIT {
            return Err(LogError::Spent { pool: self.area.name().into() });
        }
        let number = self.damage.as_ref().map(|damage| damage.newest);
        let number = number.or(self.commits.last().map(|last| last.number)).unwrap_or(self.tail.number);
        let tail = Tail { position, number };
        self.area.write_tail(tail)?;
        Ok((self.area, self.pages, tail))
    }

    fn read_all(area: Area, pages: Option<PageArea>, tail: Tail, on_damage: OnDamage) -> Result<Self> {
        let spans = find_commits(&area, tail)?;
        // Space is given away when the tail is durable, so nothing was ever claimed further than a lap from there.
        let unused = spans.iter().map(|(span, _)| span.at + 1).fold(tail.position, u64::max) + area.lines();
        let (mut commits, mut damage): (Vec<Commit>, _) = (Vec::new(), None);
        let newest = spans.iter().map(|(span, _)| span.number).max().unwrap_or(tail.number);
        let (mut from, mut number) = (tail.position, tail.number + 1);
        for (span, time) in spans {
            let walked = match span.number == number && span.from == from {
                true => walk(&area, &span)?,
                false => Err((from, Fault::NoCommit)),
            };
            match walked {
                Ok(records) => commits.push(Commit { number, position: span.at, time, records }),
                Err((position, what)) => {
                    damage = Some(Damage { commit: number, newest, position, what });
                    break;
                }
            }
            (from, number) = (span.at + 1, number + 1);
        }
        match damage {
            Some(damage) if on_damage == OnDamage::Refuse => {
                Err(LogError::Damaged { pool: area.name().into(), damage })
            }
            damage => Ok(Self { area, pages, tail, commits, on_damage, damage, unused }),
        }
    }
}

/// The lines of all commits behind the tail, in the order of their positions, and their times.
fn find_commits(area: &Area, tail: Tail) -> Result<Vec<(Span, u64)>> {
    const AT_ONCE: usize = 1024;
    let mut found = Vec::new();
    let mut lines = vec![0; AT_ONCE * LINE as usize];
    let mut position = tail.position;
    let end = tail.position + area.lines();
    while position < end {
        let count = (end - position).min(AT_ONCE as u64);
        let lines = &mut lines[..(count * LINE) as usize];
        let are_whole = area.read(position, lines)?;
        for (line, at) in lines.as_chunks::<{ LINE as usize }>().0.iter().zip(position..) {
            if are_whole {
                found.extend(Seal::is_commit_of(line, at).then(|| area.seal.decode_commit(line, at)).flatten());
                continue;
            }
            // Beside a lost line everything is read one by one.
            let mut line = *line;
            if area.read(at, &mut line)? {
                found.extend(area.seal.decode_commit(&line, at));
            }
        }
        position += count;
    }
    Ok(found)
}

/// The records of a commit, or where something else is found.
fn walk(area: &Area, span: &Span) -> Result<std::result::Result<Vec<u64>, (u64, Fault)>> {
    let (mut place, mut records, mut gaps) = (span.from, Vec::new(), span.gaps.iter().peekable());
    let mut scratch = Vec::new();
    while place < span.at {
        scratch.clear();
        if let Some((_, lines)) = gaps.next_if(|(at, _)| *at == place) {
            place += lines;
            continue;
        }
        let mut head = [0; crate::format::HEAD];
        if !area.read(place, &mut head)? {
            return Ok(Err((place, Fault::Lost)));
        }
        let len = Seal::decode_head(&head, place).filter(|head| !head.is_commit).map(|head| head.len);
        if len.is_none() || area.read_record(place, &mut scratch)?.is_none() {
            return Ok(Err((place, Fault::Record)));
        }
        records.push(place);
        place += len.unwrap_or(LINE).div_ceil(LINE);
    }
    let adds_up = place == span.at && records.len() as u64 == span.records && gaps.next().is_none();
    Ok(if adds_up { Ok(records) } else { Err((span.at, Fault::Count)) })
}
