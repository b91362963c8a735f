//! Reading chunks.

use super::{Data, Home, HomeError, Writer};
use crate::ChunkFormat;
use bytes::Bytes;
use ondol_env::sync::atomic::Ordering::Relaxed;
use slatedb::config::ScanOptions;
use std::collections::BTreeMap;
use std::ops::Range;

/// So many bytes are asked for at once.
const WINDOW: u64 = 4 << 20;

/// Up to so many chunks are asked for one by one; more by a scan.
const SINGLE: u64 = 2;

/// What a scan reads ahead.
const AHEAD: usize = 1 << 20;
const FETCHES: usize = 4;

impl Home {
    /// Fills `buf` from byte `offset`; it lies inside of the volume.
    pub(super) fn fill(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<(), HomeError> {
        let size = self.format.size().bytes() as u64;
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
        let stored = if loose.len() as u64 == end - first { BTreeMap::new() } else { self.fetch(first..end)? };
        let mut edge = vec![];
        for number in first..end {
            let start = number * size as u64;
            // The part of the chunk that is wanted, and its place.
            let from = offset.saturating_sub(start) as usize;
            let to = ((offset + buf.len() as u64 - start) as usize).min(size);
            let place = &mut buf[(start + from as u64 - offset) as usize..][..to - from];
            match (loose.get(&number), stored.get(&number)) {
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

    /// One whole chunk, as it is for who writes.
    pub(super) fn whole(&self, writer: &Writer, number: u64) -> Result<Vec<u8>, HomeError> {
        if let Some(chunk) = writer.loose.read().get(number) {
            return Ok(chunk.map_or_else(|| vec![0; self.format.size().bytes()], <[u8]>::to_vec));
        }
        let mut chunk = vec![0; self.format.size().bytes()];
        if let Some(value) = self.fetch(number..number + 1)?.get(&number) {
            self.decode(number, value, &mut chunk)?;
        }
        Ok(chunk)
    }

    /// The chunks of a range that have keys. Long ranges are gone through without keeping what they hold.
    pub(super) fn keyed(&self, range: Range<u64>) -> Result<Vec<u64>, HomeError> {
        let (data, name) = (self.data.clone(), self.bucket.name.clone());
        let work = async move {
            let mut found = vec![];
            scan(&data, range, |number, _| found.push(number)).await.map_err(|e| fault(&name, &e))?;
            Ok(found)
        };
        self.wait("looking for chunks", work)
    }

    /// The values of a range.
    fn fetch(&self, range: Range<u64>) -> Result<BTreeMap<u64, Bytes>, HomeError> {
        let (data, name) = (self.data.clone(), self.bucket.name.clone());
        let work = async move {
            let mut found = BTreeMap::new();
            if range.end - range.start > SINGLE {
                let scanned = scan(&data, range, |number, value| drop(found.insert(number, value))).await;
                scanned.map_err(|e| fault(&name, &e))?;
                return Ok(found);
            }
            for number in range {
                let key = ChunkFormat::key(number);
                let got = match &data {
                    Data::Writer(db) => db.get(key).await,
                    Data::Reader(reader) => reader.get(key).await,
                };
                found.extend(got.map_err(|e| fault(&name, &e))?.map(|value| (number, value)));
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

async fn scan(data: &Data, range: Range<u64>, mut each: impl FnMut(u64, Bytes)) -> Result<(), slatedb::Error> {
    let keys = ChunkFormat::key(range.start)..ChunkFormat::key(range.end);
    let options = ScanOptions::default().with_read_ahead_bytes(AHEAD).with_max_fetch_tasks(FETCHES);
    let mut found = match data {
        Data::Writer(db) => db.scan_with_options(keys, &options).await?,
        Data::Reader(reader) => reader.scan_with_options(keys, &options).await?,
    };
    while let Some(pair) = found.next().await? {
        // Nothing but chunks has keys in this range.
        if let Some(number) = ChunkFormat::number(&pair.key) {
            each(number, pair.value);
        }
    }
    Ok(())
}

fn fault(name: &str, e: &slatedb::Error) -> HomeError {
    super::settle::fault(name, "to read", e)
}
