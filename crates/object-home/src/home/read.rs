//! Reading chunks.

use super::change::{Pieces, patch};
use super::{Data, Home, HomeError, Order, Writing, bounded};
use crate::ChunkFormat;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ondol_env::sync::atomic::Ordering::Relaxed;
use slatedb::config::ScanOptions;
use std::collections::BTreeMap;
use std::ops::Range;

/// The values of a range of chunks.
type Values = Vec<Option<Bytes>>;

/// So many bytes are asked for at once.
const WINDOW: u64 = 4 << 20;

/// Up to so many chunks are asked for one by one; more by a scan.
const SINGLE: u64 = 2;

/// So many single chunks are asked for at once.
const SINGLES: usize = 32;

/// What a scan reads ahead.
const AHEAD: usize = 1 << 20;
const FETCHES: usize = 4;

impl Home {
    /// Fills `buf` from byte `offset`; it lies inside of the volume.
    pub(super) fn fill(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<(), HomeError> {
        let size = self.format.size().bytes() as u64;
        self.fetch_ahead(offset, buf.len() as u64);
        while !buf.is_empty() {
            let end = (offset / size * size + WINDOW).min(offset + buf.len() as u64);
            let (now, rest) = buf.split_at_mut((end - offset) as usize);
            self.fill_window(offset, now)?;
            (offset, buf) = (end, rest);
        }
        Ok(())
    }

    fn fill_window(&self, offset: u64, buf: &mut [u8]) -> Result<(), HomeError> {
        let size = self.format.size().bytes();
        let (first, end) = (offset / size as u64, (offset + buf.len() as u64).div_ceil(size as u64));
        // What waits is looked at first: it is there until the database has it.
        let loose = self.writer.as_ref().map(|writer| writer.loose.read().within(first..end)).unwrap_or_default();
        let is_all = loose.len() as u64 == end - first;
        let stored = if is_all { Values::new() } else { self.fetch(first..end)? };
        let mut edge = vec![];
        for number in first..end {
            let start = number * size as u64;
            // The part of the chunk that is wanted, and its place.
            let from = offset.saturating_sub(start) as usize;
            let to = ((offset + buf.len() as u64 - start) as usize).min(size);
            let place = &mut buf[(start + from as u64 - offset) as usize..][..to - from];
            match (loose.get(&number), stored.get((number - first) as usize).and_then(Option::as_ref)) {
                (Some(Some(chunk)), _) => place.copy_from_slice(&chunk[from..to]),
                (Some(None), _) | (None, None) => place.fill(0),
                (None, Some(value)) if place.len() == size => self.decode(number, value, place)?,
                (None, Some(value)) => {
                    edge.resize(size, 0);
                    self.decode(number, value, &mut edge)?;
                    place.copy_from_slice(&edge[from..to]);
                }
            }
        }
        Ok(())
    }

    /// What is to be read next is fetched meanwhile.
    fn fetch_ahead(&self, offset: u64, len: u64) {
        for wanted in self.ahead.read(offset, len, self.len()) {
            let (data, name, limit) = (self.data.clone(), self.bucket.name.clone(), self.timeout);
            self.border.spawn(async move {
                let (how, chunks) = (whole(), wanted.chunks.clone());
                let work = async { scan(&data, chunks, &how, |_, _| ()).await.map_err(|e| fault(&data, &name, &e)) };
                // Whoever reads it learns what is wrong.
                let _ = bounded(name.clone(), "reading ahead", limit, work).await;
                drop(wanted);
            });
        }
    }

    /// The values of single chunks, several at once.
    fn fetch_each(&self, numbers: Vec<u64>) -> Result<BTreeMap<u64, Bytes>, HomeError> {
        if numbers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (data, name) = (self.data.clone(), self.bucket.name.clone());
        let work = async move {
            let got = stream::iter(numbers).map(|number| {
                let data = data.clone();
                async move { Ok((number, get(&data, number).await?)) }
            });
            let found: Vec<(u64, Option<Bytes>)> =
                got.buffer_unordered(SINGLES).try_collect().await.map_err(|e| fault(&data, &name, &e))?;
            Ok(found.into_iter().filter_map(|(number, value)| Some((number, value?))).collect())
        };
        self.wait("reading", work)
    }

    /// The chunks of a range that have keys. Long ranges are gone through without keeping what they hold.
    pub(super) fn keyed(&self, range: Range<u64>) -> Result<Vec<u64>, HomeError> {
        let (data, name) = (self.data.clone(), self.bucket.name.clone());
        let work = async move {
            let mut found = vec![];
            scan(&data, range, &parallel(), |number, _| found.push(number))
                .await
                .map_err(|e| fault(&data, &name, &e))?;
            Ok(found)
        };
        self.wait("looking for chunks", work)
    }

    /// The values of a range.
    fn fetch(&self, range: Range<u64>) -> Result<Values, HomeError> {
        self.ahead.wait(&range);
        let (data, name) = (self.data.clone(), self.bucket.name.clone());
        let work = async move {
            if range.end - range.start > SINGLE {
                return values_of(&data, range, &parallel(), &name).await;
            }
            let mut found = Values::new();
            for number in range {
                found.push(get(&data, number).await.map_err(|e| fault(&data, &name, &e))?);
            }
            Ok(found)
        };
        self.wait("reading", work)
    }

    fn decode(&self, number: u64, value: &[u8], chunk: &mut [u8]) -> Result<(), HomeError> {
        let fault = |source| HomeError::Chunk { name: self.bucket.name.clone(), source };
        self.format.decode(number, value, chunk).map_err(fault)
    }

    /// The size in bytes as it is now.
    pub(super) fn len(&self) -> u64 {
        self.size.load(Relaxed)
    }
}

impl Writing<'_> {
    /// Chunks of which parts are written, with these. What stays of them is asked for at once.
    pub(super) fn patched(
        self,
        order: &mut Order,
        parts: Vec<(u64, Pieces<'_>)>,
    ) -> Result<Vec<(u64, Vec<u8>)>, HomeError> {
        let (mut chunks, mut missing) = (Vec::with_capacity(parts.len()), Vec::new());
        for (number, _) in &parts {
            let mut chunk = vec![0; self.home.format.size().bytes()];
            if let Some(waiting) = self.loose.read().get(*number) {
                waiting.into_iter().for_each(|waiting| chunk.copy_from_slice(waiting));
            } else if let Some(value) = order.recent.get(*number) {
                value.into_iter().try_for_each(|value| self.home.decode(*number, &value, &mut chunk))?;
            } else {
                missing.push(*number);
            }
            chunks.push((*number, chunk));
        }
        let found = self.home.fetch_each(missing)?;
        for ((number, chunk), (_, pieces)) in chunks.iter_mut().zip(&parts) {
            if let Some(value) = found.get(number) {
                self.home.decode(*number, value, chunk)?;
            }
            patch(chunk, pieces);
        }
        Ok(chunks)
    }
}

/// The values of a range, by a scan.
async fn values_of(data: &Data, chunks: Range<u64>, how: &ScanOptions, name: &str) -> Result<Values, HomeError> {
    let mut values: Values = vec![None; (chunks.end - chunks.start) as usize];
    let first = chunks.start;
    let put = |number: u64, value| values[(number - first) as usize] = Some(value);
    scan(data, chunks, how, put).await.map_err(|e| fault(data, name, &e))?;
    Ok(values)
}

/// One request for each object: of a piece that is read ahead, which is one of several. It stays in the cache.
fn whole() -> ScanOptions {
    ScanOptions::default().with_read_ahead_bytes(WINDOW as usize).with_cache_blocks(true)
}

/// Several requests at once.
fn parallel() -> ScanOptions {
    ScanOptions::default().with_read_ahead_bytes(AHEAD).with_max_fetch_tasks(FETCHES)
}

async fn get(data: &Data, number: u64) -> Result<Option<Bytes>, slatedb::Error> {
    let key = ChunkFormat::key(number);
    match data {
        Data::Writer(db) => db.get(key).await,
        Data::Reader(reader) => reader.get(key).await,
    }
}

async fn scan(
    data: &Data,
    range: Range<u64>,
    options: &ScanOptions,
    mut each: impl FnMut(u64, Bytes),
) -> Result<(), slatedb::Error> {
    let keys = ChunkFormat::key(range.start)..ChunkFormat::key(range.end);
    let mut found = match data {
        Data::Writer(db) => db.scan_with_options(keys, options).await?,
        Data::Reader(reader) => reader.scan_with_options(keys, options).await?,
    };
    while let Some(pair) = found.next().await? {
        // Nothing but chunks has keys in this range.
        if let Some(number) = ChunkFormat::number(&pair.key) {
            each(number, pair.value);
        }
    }
    Ok(())
}

fn fault(data: &Data, name: &str, e: &slatedb::Error) -> HomeError {
    const WHAT: &str = "to read";
    match data {
        Data::Writer(db) => super::settle::fault_of(db, name, WHAT, e),
        Data::Reader(_) => super::settle::fault(name, WHAT, e),
    }
}
