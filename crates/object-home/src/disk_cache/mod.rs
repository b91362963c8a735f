//! Parts of data objects on the local disk.
//!
//! A store over a store. Data objects never change and their names are never used again, so nothing has to be invalidated, whoever writes to the bucket. Everything else passes, and so
//! do reads with conditions.

mod file;
mod format;
mod index;

use crate::{Bucket, HomeError};
use bytes::{Bytes, BytesMut};
use file::{Known, Slots};
use format::{NAME, PART};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use slatedb::object_store_tag::{ObjectStoreCallTag, TableStoreKind};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Reads of more parts at once pass: nobody reads so much again soon.
const MANY: u64 = 256;

/// No object is so long.
const FAR: u64 = 1 << 50;

/// A cache on the local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its file. It may be deleted at any time.
    pub file: PathBuf,
    /// The size of the file.
    pub bytes: u64,
}

/// What a cache has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Parts that it has room for.
    pub room: u64,
    /// Parts that it has.
    pub parts: u64,
    /// Parts that were wanted and there.
    pub hits: u64,
    /// Parts that were wanted and not there.
    pub misses: u64,
    /// Parts that were written.
    pub stored: u64,
    /// Parts that were there and not as they should be. They count as misses, too.
    pub damaged: u64,
    /// Parts that could not be read or written.
    pub failed: u64,
}

/// The cache of one volume. Clones are the same one.
#[derive(Clone)]
pub(crate) struct DiskCache {
    inner: Arc<dyn ObjectStore>,
    slots: Arc<Slots>,
}

/// Whoever has the file. It is given back when this is dropped, although tasks may still know the cache: those do without.
#[derive(Debug)]
pub(crate) struct Held(DiskCache);

impl Held {
    pub(crate) fn counts(&self) -> DiskUse {
        self.0.slots.counts()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.slots.end();
    }
}

/// The bucket with a cache above its store, if one is wanted and nobody else has it.
pub(crate) fn over(bucket: &Bucket, disk: Option<&Disk>) -> Result<(Bucket, Option<Held>), HomeError> {
    let Some(disk) = disk else { return Ok((bucket.clone(), None)) };
    let fault = |why: String| HomeError::DiskCache { file: disk.file.display().to_string(), why };
    let Some(slots) = Slots::open(disk).map_err(|e| fault(e.to_string()))? else {
        tracing::warn!("{} is in use by another process: {} is read without it", disk.file.display(), bucket.name());
        return Ok((bucket.clone(), None));
    };
    let cache = DiskCache { inner: bucket.store.clone(), slots: Arc::new(slots) };
    Ok((bucket.through(Arc::new(cache.clone())), Some(Held(cache))))
}

/// What is asked of an object, in parts.
struct Wanted {
    name: String,
    range: Range<u64>,
    /// Nobody has read this badly before.
    is_trusted: bool,
    /// What is read now is worth keeping.
    is_kept: bool,
}

impl Wanted {
    fn parts(&self) -> Range<u64> {
        self.range.start / PART..self.range.end.div_ceil(PART)
    }
}

impl DiskCache {
    /// What of a read concerns the cache.
    fn wanted(location: &Path, options: &GetOptions) -> Option<Wanted> {
        let GetOptions {
            if_match, if_none_match, if_modified_since, if_unmodified_since, range, version, head, ..
        } = options;
        let has_condition = if_match.is_some()
            || if_none_match.is_some()
            || if_modified_since.is_some()
            || if_unmodified_since.is_some()
            || version.is_some();
        let Some(GetRange::Bounded(range)) = range else { return None };
        let is_data = location.parts().rev().nth(1).is_some_and(|dir| dir.as_ref() == "compacted");
        if range.end > FAR {
            return None;
        }
        if has_condition || *head || !is_data || range.is_empty() || location.as_ref().len() > NAME {
            return None;
        }
        let tag = ObjectStoreCallTag::from_extensions(&options.extensions);
        let wanted = Wanted {
            name: location.to_string(),
            range: range.clone(),
            is_trusted: tag.as_ref().is_none_or(|tag| tag.retry.is_none()),
            is_kept: tag.is_none_or(|tag| tag.kind != TableStoreKind::Compactor),
        };
        let parts = wanted.parts();
        (parts.end - parts.start <= MANY).then_some(wanted)
    }

    /// The parts that are there, by their numbers.
    async fn look(&self, wanted: &Arc<Wanted>) -> Vec<Option<Known>> {
        let (slots, wanted) = (self.slots.clone(), wanted.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let each = |part| {
                if wanted.is_trusted {
                    return slots.get(&wanted.name, part);
                }
                slots.forget(&wanted.name, part);
                None
            };
            wanted.parts().map(each).collect()
        });
        // It ends early only with the runtime.
        looked.await.unwrap_or_default()
    }

    async fn keep(&self, wanted: &Arc<Wanted>, first: u64, bytes: Bytes, meta: &ObjectMeta) {
        let (slots, wanted) = (self.slots.clone(), wanted.clone());
        let (size, modified) = (meta.size, meta.last_modified.timestamp());
        let kept = tokio::task::spawn_blocking(move || {
            for (n, at) in (0..bytes.len()).step_by(PART as usize).enumerate() {
                let part = first + n as u64;
                let len = PART.min(size.saturating_sub(part * PART)) as usize;
                if let Some(part_bytes) = bytes.get(at..at + len).filter(|bytes| !bytes.is_empty()) {
                    slots.put(&wanted.name, part, &Known { bytes: bytes.slice_ref(part_bytes), size, modified });
                }
            }
        });
        if let Err(e) = kept.await {
            tracing::debug!("what was read is not kept: {e}");
        }
    }

    /// Reads what is missing, from the first such part to the last, and answers with all of it.
    async fn read(&self, location: &Path, options: &GetOptions, wanted: Arc<Wanted>) -> Result<GetResult> {
        let mut found = self.look(&wanted).await;
        let parts = wanted.parts();
        if let Some(size) = found.iter().flatten().map(|known| known.size).next() {
            // What lies behind the end is not missing.
            found.truncate(size.div_ceil(PART).saturating_sub(parts.start) as usize);
        }
        let missing = |found: &[Option<Known>]| {
            let first = found.iter().position(Option::is_none)?;
            Some((first, found.iter().rposition(Option::is_none)? + 1))
        };
        let passed = || self.inner.get_opts(location, options.clone());
        let Some((first, end)) = (match found.is_empty() {
            true => return passed().await,
            false => missing(&found),
        }) else {
            return Ok(answer(location, &wanted.range, parts.start, &found));
        };
        if !wanted.is_kept {
            return passed().await;
        }
        let from = (parts.start + first as u64) * PART;
        let range = from..(parts.start + end as u64) * PART;
        let asked = GetOptions { range: Some(GetRange::Bounded(range)), ..options.clone() };
        let got = self.inner.get_opts(location, asked).await?;
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let bytes = got.bytes().await?;
        if range.start != from || bytes.len() as u64 != range.end - range.start || meta.size <= wanted.range.start {
            return passed().await;
        }
        self.keep(&wanted, from / PART, bytes.clone(), &meta).await;
        for (n, place) in found.iter_mut().enumerate().take(end).skip(first) {
            let at = (parts.start + n as u64) * PART - from;
            let part =
                bytes.slice((at.min(bytes.len() as u64)) as usize..((at + PART).min(bytes.len() as u64)) as usize);
            *place = Some(Known { bytes: part, size: meta.size, modified: meta.last_modified.timestamp() });
        }
        Ok(answer(location, &wanted.range, parts.start, &found))
    }
}

/// The answer to a read of `range`, whose parts from number `first` on are all there.
fn answer(location: &Path, range: &Range<u64>, first: u64, found: &[Option<Known>]) -> GetResult {
    let known = found.iter().flatten();
    let (size, modified) = known.clone().map(|known| (known.size, known.modified)).next().unwrap_or_default();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(modified.try_into().unwrap_or_default());
    let mut all = BytesMut::with_capacity((range.end - range.start) as usize);
    let start = first * PART;
    let range = range.start..range.end.min(size);
    let mut at = start;
    for part in known {
        let from = range.start.saturating_sub(at).min(part.bytes.len() as u64) as usize;
        let to = range.end.saturating_sub(at).min(part.bytes.len() as u64) as usize;
        all.extend_from_slice(&part.bytes[from..to.max(from)]);
        at += PART;
    }
    let meta =
        ObjectMeta { location: location.clone(), last_modified: modified.into(), size, e_tag: None, version: None };
    let bytes = all.freeze();
    let payload = GetResultPayload::Stream(futures_util::stream::once(async move { Ok(bytes) }).boxed());
    GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() }
}

/// Stores know credentials.
impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").finish_non_exhaustive()
    }
}

impl fmt::Display for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for DiskCache {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match Self::wanted(location, &options) {
            Some(wanted) => self.read(location, &options, Arc::new(wanted)).await,
            None => self.inner.get_opts(location, options).await,
        }
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
