//! What comes of an object, in order.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes that are kept behind a reader: ranges that follow each other share a block of the database, or a part of the cache on the disk.
const BEHIND: u64 = 128 << 10;

/// Bytes that may lie between what has come and a range: as a rule a range that is asked for a moment later. They are kept for it.
const BETWEEN: u64 = 4 << 20;

/// If so little is left of an object, it is taken at once: then the connection is free for the next one.
const REST: u64 = 128 << 10;

/// An answer of the store, as far as it has come.
pub(super) struct Source {
    state: State,
    /// What has come and may be wanted, by its place in the object; up to `at`, without gaps.
    kept: VecDeque<(u64, Bytes)>,
    /// Up to here it has come.
    at: u64,
    /// Everything before this was given out,
    given: u64,
    /// and these ranges behind it.
    beyond: Vec<Range<u64>>,
}

enum State {
    /// Nothing was asked yet.
    New,
    Comes(BoxStream<'static, Result<Bytes>>, ObjectMeta),
    /// All of it has come.
    Whole(ObjectMeta),
    Failed,
}

impl Source {
    /// Of an object that is to be asked for from byte `from` on, because somebody wants what follows `start`.
    pub(super) fn new(from: u64, start: u64) -> Self {
        Self { state: State::New, kept: VecDeque::new(), at: from, given: start, beyond: Vec::new() }
    }

    /// Nothing can be had any more.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    /// The bytes of a range as far as the object has them, and what the store says of the object. None: they cannot be had here.
    pub(super) async fn take(
        &mut self,
        store: &dyn ObjectStore,
        location: &Path,
        options: &GetOptions,
        range: &Range<u64>,
    ) -> Option<(Bytes, ObjectMeta)> {
        if matches!(self.state, State::New) {
            self.begin(store, location, options).await;
        }
        let (State::Comes(_, meta) | State::Whole(meta)) = &self.state else { return None };
        let meta = meta.clone();
        let range = range.start..range.end.min(meta.size);
        let first = self.kept.front().map_or(self.at, |(from, _)| *from);
        if range.is_empty() || range.start < first || range.start > self.at.max(self.given) + BETWEEN {
            return None;
        }
        let bytes = self.filled(&range).await?;
        self.give(range);
        while self.at < meta.size && meta.size - self.at <= REST {
            let rest = self.come().await?;
            self.kept.push_back(rest);
        }
        Some((bytes, meta))
    }

    async fn begin(&mut self, store: &dyn ObjectStore, location: &Path, options: &GetOptions) {
        let from = self.at;
        let asked = GetOptions { range: (from > 0).then_some(GetRange::Offset(from)), ..options.clone() };
        self.state = match store.get_opts(location, asked).await {
            Ok(got) if got.range == (from..got.meta.size) => {
                let meta = got.meta.clone();
                State::Comes(got.into_stream(), meta)
            }
            // Whoever asks for the range alone learns what is wrong.
            _ => State::Failed,
        };
    }

    /// The next bytes come, and from where they are. None: none do, and that is a failure.
    async fn come(&mut self) -> Option<(u64, Bytes)> {
        let State::Comes(stream, meta) = &mut self.state else { return None };
        let (from, came) = (self.at, stream.next().await);
        match came {
            Some(Ok(bytes)) if from + bytes.len() as u64 <= meta.size => {
                self.at += bytes.len() as u64;
                if self.at == meta.size {
                    self.state = State::Whole(meta.clone());
                }
                Some((from, bytes))
            }
            _ => {
                self.state = State::Failed;
                None
            }
        }
    }

    async fn filled(&mut self, range: &Range<u64>) -> Option<Bytes> {
        let len = (range.end - range.start) as usize;
        let mut filled = Vec::new();
        for (from, bytes) in &self.kept {
            let now = part(*from, bytes, range);
            if now.len() == len {
                return Some(bytes.slice_ref(now));
            }
            filled.reserve_exact(len - filled.len());
            filled.extend_from_slice(now);
        }
        // Others may still want what lies before.
        let is_next = range.start <= self.given;
        let comes = self.at < range.end;
        while self.at < range.end {
            let (from, bytes) = self.come().await?;
            let now = part(from, &bytes, range);
            if now.len() == len {
                let all = bytes.slice_ref(now);
                self.kept.push_back((from, bytes));
                return Some(all);
            }
            filled.reserve_exact(len - filled.len());
            filled.extend_from_slice(now);
            if !is_next {
                self.kept.push_back((from, bytes));
                continue;
            }
            // The client reads into the same memory again if nobody has what came there.
            self.kept.clear();
            self.given = self.given.max(self.at.min(range.end));
            let rest = part(from, &bytes, &(range.end..self.at));
            if !rest.is_empty() {
                self.kept.push_back((range.end, bytes.slice_ref(rest)));
            }
        }
        let filled = Bytes::from(filled);
        if is_next && comes {
            let behind = len.min(BEHIND as usize);
            // A slice would keep all of it.
            let end = Bytes::copy_from_slice(&filled[len - behind..]);
            self.kept.push_front((range.end - behind as u64, end));
        }
        Some(filled)
    }

    /// A range was given out.
    fn give(&mut self, range: Range<u64>) {
        self.beyond.push(range);
        while let Some(next) = self.beyond.iter().position(|range| range.start <= self.given) {
            self.given = self.given.max(self.beyond.swap_remove(next).end);
        }
        self.forget();
    }

    /// Forgets what was given out, but for the end of it, and what nobody has asked for although what lies far behind it was.
    fn forget(&mut self) {
        self.given = self.given.max(self.at.saturating_sub(2 * BETWEEN));
        let from = self.given.saturating_sub(BEHIND);
        while self.kept.front().is_some_and(|(at, bytes)| at + bytes.len() as u64 <= from) {
            self.kept.pop_front();
        }
    }
}

/// What of these bytes, which begin at `from`, lies in a range.
fn part<'b>(from: u64, bytes: &'b [u8], range: &Range<u64>) -> &'b [u8] {
    let at = |place: u64| place.saturating_sub(from).min(bytes.len() as u64) as usize;
    &bytes[at(range.start)..at(range.end)]
}
