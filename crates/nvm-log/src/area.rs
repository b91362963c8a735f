//! The log's area in a pool: where everything lies, the header and the tail with their two copies, and records as
//! bytes.

use crate::error::{LogError, Result};
use crate::format::{HEAD, HEADER_BYTES, Header, LINE, Line, RECORD_BYTES, Seal, Tail};
use crate::ring::CLAIM_LINES;
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, Fenced, HeaderFault, Nvm, NvmError, PAGE, Pool, WrittenBack};
use std::ops::Range;

const COPIES: [u64; 2] = [0, PAGE];
/// Where the tail lies in the page of its copy.
const TAIL_AT: u64 = PAGE / 2;
pub(crate) const RING_AT: u64 = 2 * PAGE;

/// Lines that a ring has at least.
pub(crate) const LEAST: u64 = 64;
/// From so many bytes on, stores past the caches are faster.
const LARGE: usize = 256;
/// A record takes one of so many parts of the ring at most: several of them fit, each with what voiding it may cost.
const PARTS: u64 = 4;

/// The area of one log.
#[derive(Debug)]
pub(crate) struct Area {
    nvm: Arc<Nvm>,
    start: u64,
    pub(crate) header: Header,
    pub(crate) seal: Seal,
}

/// What an area is found to hold.
pub(crate) enum Found {
    /// Nothing: a log with this header can be made.
    Nothing(Area),
    /// A log that begins here.
    Log(Area, Tail),
}

impl Area {
    /// Looks at the area of a pool, and changes nothing. `uuid` is that of a log to be made.
    pub(crate) fn find(pool: &Pool, uuid: [u8; 16]) -> Result<Found> {
        let name = || pool.nvm().name().to_owned();
        let area = pool.area(AreaKind::JOURNAL_LOG).ok_or_else(|| LogError::NoArea { pool: name() })?;
        let lines = area.len.saturating_sub(RING_AT) / LINE;
        if lines < LEAST {
            return Err(LogError::Small { pool: name(), lines, least: LEAST });
        }
        let with =
            |header: Header| Self { nvm: pool.nvm().clone(), start: area.start, seal: Seal::new(header.uuid), header };
        let read = |copy: u64| read_header(pool.nvm(), area.start + copy, lines);
        let [(is_empty, first), (_, second)] = [read(COPIES[0])?, read(COPIES[1])?];
        let header = match (first, second) {
            // A log is made from its second copy on: with a first one of zeros it was never there.
            _ if is_empty => {
                return Ok(Found::Nothing(with(Header { uuid, pool: pool.header().uuid, lines })));
            }
            (Err(what), _) | (_, Err(what)) if what.is_newer() => return Err(LogError::Newer { pool: name(), what }),
            (Ok(a), Ok(b)) if a != b => {
                let what = HeaderFault::Contents("the copies differ");
                return Err(LogError::Header { pool: name(), first: what.clone(), second: what });
            }
            (Ok(header), _) | (_, Ok(header)) => header,
            (Err(first), Err(second)) => return Err(LogError::Header { pool: name(), first, second }),
        };
        if header.pool != pool.header().uuid {
            return Err(LogError::Foreign { pool: name() });
        }
        let area = with(header);
        let tail = area.read_tail()?.ok_or_else(|| LogError::Tail { pool: name() })?;
        Ok(Found::Log(area, tail))
    }

    /// Makes an empty log.
    pub(crate) fn make(&self) -> Result<Tail> {
        // Positions begin a lap later than they could: the line before the first has a number, too.
        let tail = Tail { position: self.header.lines, number: 0 };
        for copy in COPIES.into_iter().rev() {
            self.write_tail_copy(copy, tail)?;
            self.write_header(copy)?;
        }
        Ok(tail)
    }

    /// Has both copies of header and tail whole. Before anything else is written: of a tail that a crash has torn there
    /// is only the other copy.
    pub(crate) fn mend(&self, tail: Tail) -> Result<()> {
        for copy in COPIES {
            if self.read_tail_copy(copy)? != Some(tail) {
                self.write_tail_copy(copy, tail)?;
            }
            let found = read_header(&self.nvm, self.start + copy, self.header.lines)?.1;
            if found.as_ref() != Ok(&self.header) {
                self.write_header(copy)?;
            }
        }
        Ok(())
    }

    fn write_header(&self, copy: u64) -> Result<()> {
        let mut batch = self.nvm.stored();
        batch.store(self.start + copy, &self.header.encode())?;
        batch.write_back().fence()?;
        Ok(())
    }

    /// The log begins here from now on. What lies before is given away when this returns, not before.
    pub(crate) fn write_tail(&self, tail: Tail) -> Result<()> {
        COPIES.iter().try_for_each(|copy| self.write_tail_copy(*copy, tail))
    }

    fn write_tail_copy(&self, copy: u64, tail: Tail) -> Result<()> {
        let mut batch = self.nvm.stored();
        batch.store(self.start + copy + TAIL_AT, &self.seal.encode_tail(tail))?;
        batch.write_back().fence()?;
        Ok(())
    }

    fn read_tail(&self) -> Result<Option<Tail>> {
        let [first, second] = COPIES.map(|copy| self.read_tail_copy(copy));
        Ok(first?.max(second?))
    }

    fn read_tail_copy(&self, copy: u64) -> Result<Option<Tail>> {
        let mut line = [0; LINE as usize];
        let is_whole = read_whole(&self.nvm, self.start + copy + TAIL_AT, &mut line)?;
        Ok(if is_whole { self.seal.decode_tail(&line) } else { None })
    }

    pub(crate) fn name(&self) -> &str {
        self.nvm.name()
    }

    pub(crate) fn lines(&self) -> u64 {
        self.header.lines
    }

    /// Bytes that the contents of a record can have.
    pub(crate) fn most(&self) -> u64 {
        let lines = (self.lines() / PARTS).min(CLAIM_LINES);
        (lines * LINE).min(RECORD_BYTES) - HEAD as u64
    }

    fn at(&self, position: u64) -> u64 {
        self.start + RING_AT + position % self.lines() * LINE
    }

    /// Bytes from here to the end of the ring.
    fn up_to_end(&self, position: u64) -> u64 {
        (self.lines() - position % self.lines()) * LINE
    }

    /// Writes an operation's record, durably, and what is `beside` it. It takes all of its `lines`: zeros make shorter
    /// contents long enough.
    pub(crate) fn write_record<'n>(
        &'n self,
        position: u64,
        lines: u64,
        contents: &[u8],
        beside: Option<WrittenBack<'n>>,
    ) -> Result<Fenced<'n>> {
        let least = ((lines - 1) * LINE) as usize + 1;
        if HEAD + contents.len() < least {
            let mut padded = contents.to_vec();
            padded.resize(least.saturating_sub(HEAD), 0);
            return self.write_whole(position, &padded, beside);
        }
        self.write_whole(position, contents, beside)
    }

    fn write_whole<'n>(
        &'n self,
        position: u64,
        contents: &[u8],
        beside: Option<WrittenBack<'n>>,
    ) -> Result<Fenced<'n>> {
        let (in_first, rest) = contents.split_at(contents.len().min(LINE as usize - HEAD));
        let mut first = [0; LINE as usize];
        first[..HEAD].copy_from_slice(&self.seal.encode_head(position, contents));
        first[HEAD..HEAD + in_first.len()].copy_from_slice(in_first);
        let mut batch = self.nvm.stored();
        batch.store(self.at(position), &first)?;
        let fits = self.up_to_end(position + 1).min(rest.len() as u64) as usize;
        let (before, after) = rest.split_at(fits);
        for (at, part) in [(self.at(position + 1), before), (self.start + RING_AT, after)] {
            match part.len() {
                0 => {}
                n if n < LARGE => batch.store(at, part)?,
                _ => batch.copy(at, part)?,
            }
        }
        let mut written = batch.write_back();
        if let Some(beside) = beside {
            written = written.and(beside)?;
        }
        Ok(written.fence()?)
    }

    /// Writes the line of a commit, durably. `fenced`: what it commits is.
    pub(crate) fn write_commit(&self, fenced: &Fenced<'_>, position: u64, line: &Line) -> Result<()> {
        fenced.publish_record(self.at(position), line)?;
        Ok(())
    }

    pub(crate) fn nvm(&self) -> &Nvm {
        &self.nvm
    }

    /// Reads around the end of the ring. False: the medium has lost some of it.
    pub(crate) fn read(&self, position: u64, buf: &mut [u8]) -> Result<bool> {
        let fits = self.up_to_end(position).min(buf.len() as u64) as usize;
        let (before, after) = buf.split_at_mut(fits);
        Ok(read_whole(&self.nvm, self.at(position), before)?
            && (after.is_empty() || read_whole(&self.nvm, self.start + RING_AT, after)?))
    }

    /// Puts the record of an operation behind what is in `into`, if it is whole, and says where its contents lie in
    /// there.
    pub(crate) fn read_record(&self, position: u64, into: &mut Vec<u8>) -> Result<Option<Range<usize>>> {
        let mut head = [0; HEAD];
        if !self.read(position, &mut head)? {
            return Ok(None);
        }
        let len = Seal::decode_head(&head, position).filter(|head| !head.is_commit).map(|head| head.len);
        let Some(len) = len.filter(|len| *len <= self.lines() * LINE) else { return Ok(None) };
        let from = into.len();
        into.resize(from + len as usize, 0);
        let read = self.read(position, &mut into[from..]);
        if !matches!(read, Ok(true)) || !self.seal.is_whole(&into[from..]) {
            into.truncate(from);
            return read.map(|_| None);
        }
        Ok(Some(from + HEAD..into.len()))
    }
}

fn read_header(nvm: &Nvm, offset: u64, lines: u64) -> Result<(bool, std::result::Result<Header, HeaderFault>)> {
    let mut bytes = [0; HEADER_BYTES];
    match nvm.read(offset, &mut bytes) {
        Ok(()) => {}
        Err(NvmError::Poisoned { offset, .. }) => return Ok((false, Err(HeaderFault::Lost(offset)))),
        Err(e) => return Err(e.into()),
    }
    let fits = |header: Header| match (LEAST..=lines).contains(&header.lines) {
        true => Ok(header),
        false => Err(HeaderFault::Contents("the ring that it describes does not fit into the area")),
    };
    Ok((bytes == [0; HEADER_BYTES], Header::decode(&bytes).and_then(fits)))
}

/// False: the medium has lost some of it.
fn read_whole(nvm: &Nvm, offset: u64, buf: &mut [u8]) -> Result<bool> {
    match nvm.read(offset, buf) {
        Ok(()) => Ok(true),
        Err(NvmError::Poisoned { .. }) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
