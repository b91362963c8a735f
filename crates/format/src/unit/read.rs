//! Reading units, which may be anything: torn, stale, hostile. Piece by piece, so that no length that a unit tells
//! decides how much memory that takes.

use super::{CHUNK, CHUNK_ENTRY, HEADER, MAGIC, STAGED, StagedRun, TABLES, VERSION};
use crate::csum::crc32c;
use crate::{FormatError, Place, Time};

const UNIT: &str = "journal unit";

/// Bytes that are read at once where they are only looked through.
const PIECE: usize = 1 << 20;
/// Entries of the table of chunks that are read at once.
const ENTRIES: usize = 512;

/// Why a unit cannot be read: it breaks a rule of the format, or its source fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed<E> {
    /// It breaks a rule, which no crash does to a unit that is whole.
    Broken(FormatError),
    /// What the source says.
    Source(E),
}

type Result<T, E> = std::result::Result<T, Failed<E>>;

/// The first bytes of a unit. Nothing in it is to be believed before [`Header::is_whole`] has seen the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the unit, this header included.
    pub size: usize,
    /// Its number; the lower half is the transaction id.
    pub sequence: u64,
    /// The newest unit that was known to be durable when it was written; 0 for none.
    pub durable: u64,
    checksum: u32,
    chunks: usize,
    raw: usize,
}

impl Header {
    /// The header at the beginning of `bytes`; None if there is none that makes sense in a ring of `ring` bytes.
    pub fn parse(bytes: &[u8], ring: u64) -> Option<Self> {
        let at = |n: usize| Some(u32::from_le_bytes(bytes.get(n..n + 4)?.try_into().ok()?));
        let long = |n: usize| Some(u64::from_le_bytes(bytes.get(n..n + 8)?.try_into().ok()?));
        if bytes.len() < HEADER || at(8)? != MAGIC || at(12)? != VERSION {
            return None;
        }
        let header = Self {
            size: at(0)? as usize,
            checksum: at(4)?,
            sequence: long(16)?,
            durable: long(24)?,
            chunks: at(32)? as usize,
            raw: at(36)? as usize,
        };
        let fits = header.size as u64 <= ring && header.raw as u64 <= ring && header.table_end()? <= header.size;
        (fits && header.durable < header.sequence && header.raw >= TABLES).then_some(header)
    }

    fn table_end(&self) -> Option<usize> {
        HEADER.checked_add(self.chunks.checked_mul(CHUNK_ENTRY)?)
    }

    /// Whether the bytes that `source` fills in from an offset on are all of the unit: nothing of it is missing or of
    /// another time.
    ///
    /// # Errors
    /// The source's.
    pub fn is_whole<E>(
        &self,
        seed: u32,
        mut source: impl FnMut(usize, &mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let (mut at, mut sum) = (8, seed);
        let mut bytes = vec![0; PIECE.min(self.size)];
        while at < self.size {
            let n = bytes.len().min(self.size - at);
            source(at, &mut bytes[..n])?;
            sum = crc32c(sum, &bytes[..n]);
            at += n;
        }
        Ok(sum == self.checksum)
    }
}

/// A whole unit on its way through memory: its tables and its images, each once and in this order.
#[derive(Debug)]
pub struct Unit<S> {
    /// Its number.
    pub sequence: u64,
    /// When it was committed.
    pub time: Time,
    blocks: Vec<u64>,
    /// Revokes, runs and images that are still to come.
    revokes: usize,
    runs: usize,
    image: usize,
    block_size: usize,
    contents: Contents<S>,
}

impl<E, S: FnMut(usize, &mut [u8]) -> std::result::Result<(), E>> Unit<S> {
    /// Begins to read a unit that [`Header::is_whole`] from `source`. What that takes of memory depends on the images
    /// that its size can hold alone: 8 bytes each.
    ///
    /// # Errors
    /// It breaks a rule of the format; the source's.
    pub fn open(header: &Header, block_size: usize, source: S) -> Result<Self, E> {
        let mut contents = Contents::new(*header, source);
        let mut head = [0; TABLES];
        contents.take(&mut head)?;
        let word = |n: usize| u32::from_le_bytes(std::array::from_fn(|i| head[n + i]));
        let long = |n: usize| u64::from_le_bytes(std::array::from_fn(|i| head[n + i]));
        let (images, revokes, runs) = (word(24) as usize, word(28) as usize, word(32) as usize);
        let tables = TABLES as u64 + 8 * images as u64 + 8 * revokes as u64 + (STAGED * runs) as u64;
        if tables > header.raw as u64 {
            return Err(contents.broken("its tables are longer than it"));
        }
        if long(0) != header.sequence {
            return Err(contents.broken("its tables are of another"));
        }
        if word(20) as usize != block_size {
            return Err(contents.broken("its blocks are of another size"));
        }
        let rest = header.raw as u64 - tables;
        if rest != images as u64 * block_size as u64 {
            return Err(contents.broken(&format!("{rest} bytes for {images} images")));
        }
        let mut blocks = Vec::with_capacity(images);
        for _ in 0..images {
            blocks.push(contents.long()?);
        }
        let time = Time { sec: long(8) as i64, nsec: word(16) };
        Ok(Self { sequence: header.sequence, time, blocks, revokes, runs, image: 0, block_size, contents })
    }

    /// Homes of its images.
    pub fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// How many revokes are still to come.
    pub fn revokes(&self) -> usize {
        self.revokes
    }

    /// The next block whose older images must not be replayed.
    ///
    /// # Errors
    /// As [`Unit::open`].
    pub fn next_revoked(&mut self) -> Result<Option<u64>, E> {
        let Some(left) = self.revokes.checked_sub(1) else { return Ok(None) };
        self.revokes = left;
        self.contents.long().map(Some)
    }

    /// The next run that was written home; what is left of what comes before is passed over.
    ///
    /// # Errors
    /// As [`Unit::open`].
    pub fn next_staged(&mut self) -> Result<Option<StagedRun>, E> {
        while self.next_revoked()?.is_some() {}
        let Some(left) = self.runs.checked_sub(1) else { return Ok(None) };
        self.runs = left;
        let (start, rest) = (self.contents.long()?, self.contents.long()?);
        Ok(Some(StagedRun { start, blocks: rest as u32, checksum: (rest >> 32) as u32 }))
    }

    /// Puts the next image into `bytes`, a block, and tells its home; what is left of what comes before is passed over.
    ///
    /// # Errors
    /// As [`Unit::open`].
    pub fn next_image(&mut self, bytes: &mut [u8]) -> Result<Option<u64>, E> {
        while self.next_staged()?.is_some() {}
        let Some(&home) = self.blocks.get(self.image) else { return Ok(None) };
        self.image += 1;
        self.contents.take(bytes)?;
        Ok(Some(home))
    }

    /// Reads what is left, and sees that nothing is missing or too much.
    ///
    /// # Errors
    /// As [`Unit::open`].
    pub fn finish(mut self) -> Result<(), E> {
        let mut image = vec![0; self.block_size];
        while self.next_image(&mut image)?.is_some() {}
        self.contents.finish()
    }
}

/// The contents of all chunks, one behind the other.
#[derive(Debug)]
struct Contents<S> {
    header: Header,
    source: S,
    /// Entries of the table that have been read, and the number of the next chunk and of the one behind them.
    entries: Vec<u8>,
    next: usize,
    read: usize,
    /// Where the next chunk lies.
    at: usize,
    /// Bytes of contents that all chunks so far have.
    filled: usize,
    stored: Vec<u8>,
    /// The chunk that is being taken from, and how much of it has been.
    chunk: Vec<u8>,
    taken: usize,
}

impl<E, S: FnMut(usize, &mut [u8]) -> std::result::Result<(), E>> Contents<S> {
    fn new(header: Header, source: S) -> Self {
        let at = HEADER + header.chunks * CHUNK_ENTRY;
        let (entries, stored, chunk) = (Vec::new(), Vec::new(), Vec::new());
        Self { header, source, entries, next: 0, read: 0, at, filled: 0, stored, chunk, taken: 0 }
    }

    fn broken(&self, what: &str) -> Failed<E> {
        Failed::Broken(Place::NONE.corrupt(UNIT, format!("unit {}: {what}", self.header.sequence)))
    }

    fn long(&mut self) -> Result<u64, E> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn take(&mut self, mut into: &mut [u8]) -> Result<(), E> {
        while !into.is_empty() {
            let left = &self.chunk[self.taken..];
            let n = left.len().min(into.len());
            let (now, later) = into.split_at_mut(n);
            now.copy_from_slice(&left[..n]);
            self.taken += n;
            into = later;
            if !into.is_empty() {
                self.unpack()?;
            }
        }
        Ok(())
    }

    /// The next chunk's number, the bytes of its contents, and those that it takes.
    fn entry(&mut self) -> Result<(usize, usize, usize), E> {
        if self.next == self.header.chunks {
            return Err(self.broken("its chunks do not fill it"));
        }
        if self.next == self.read {
            let n = ENTRIES.min(self.header.chunks - self.read);
            self.entries.resize(n * CHUNK_ENTRY, 0);
            (self.source)(HEADER + self.read * CHUNK_ENTRY, &mut self.entries).map_err(Failed::Source)?;
            self.read += n;
        }
        let at = self.entries.len() - (self.read - self.next) * CHUNK_ENTRY;
        let word = |n: usize| u32::from_le_bytes(std::array::from_fn(|i| self.entries[at + n + i])) as usize;
        let (i, len, stored) = (self.next, word(0), word(4));
        self.next += 1;
        Ok((i, len, stored))
    }

    fn unpack(&mut self) -> Result<(), E> {
        let (i, len, stored) = self.entry()?;
        if len > CHUNK || stored > len || self.filled + len > self.header.raw {
            return Err(self.broken(&format!("chunk {i} has {len} bytes and takes {stored}")));
        }
        if self.at + stored > self.header.size {
            return Err(self.broken("its chunks are longer than it"));
        }
        self.chunk.resize(len, 0);
        let into = if stored == len { &mut self.chunk } else { &mut self.stored };
        into.resize(stored, 0);
        (self.source)(self.at, into).map_err(Failed::Source)?;
        if stored < len {
            let got = lz4_flex::block::decompress_into(&self.stored, &mut self.chunk);
            match got {
                Ok(got) if got == len => {}
                Ok(got) => return Err(self.broken(&format!("chunk {i} has {got} bytes, not {len}"))),
                Err(e) => return Err(self.broken(&format!("chunk {i}: {e}"))),
            }
        }
        (self.at, self.filled, self.taken) = (self.at + stored, self.filled + len, 0);
        Ok(())
    }

    /// Everything has been taken: no chunk holds more.
    fn finish(mut self) -> Result<(), E> {
        while self.next < self.header.chunks {
            self.unpack()?;
        }
        if self.filled == self.header.raw && self.at == self.header.size {
            return Ok(());
        }
        Err(self.broken("its chunks do not fill it"))
    }
}
