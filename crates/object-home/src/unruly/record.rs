//! What a store was asked, and what it answered.

use bytes::Bytes;
use object_store::path::Path;
use std::collections::BTreeMap;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object is to hold these bytes.
    Put {
        /// The object.
        path: Path,
        /// What it is to hold.
        bytes: Bytes,
    },
    /// An upload in parts begins.
    Upload {
        /// The object.
        path: Path,
    },
    /// An object, or a range or the description of it, is read.
    Get {
        /// The object.
        path: Path,
    },
    /// An object is deleted.
    Delete {
        /// The object.
        path: Path,
    },
    /// Objects are listed.
    List {
        /// What their names begin with.
        prefix: Option<Path>,
    },
    /// An object is to hold what another one does.
    Copy {
        /// The other one.
        from: Path,
        /// The object.
        to: Path,
    },
}

impl Request {
    /// Its kind and its object.
    pub(super) fn name(&self) -> (u8, &str) {
        match self {
            Self::Put { path, .. } => (0, path.as_ref()),
            Self::Upload { path } => (1, path.as_ref()),
            Self::Get { path } => (2, path.as_ref()),
            Self::Delete { path } => (3, path.as_ref()),
            Self::List { prefix } => (4, prefix.as_ref().map_or("", |path| path.as_ref())),
            Self::Copy { to, .. } => (5, to.as_ref()),
        }
    }

    fn is_change(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::List { .. })
    }
}

/// How a change was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acknowledged.
    Done,
    /// It was refused or failed. With an answer other than that of a condition, it may have been done all the same.
    Failed,
}

/// A change that was asked for, or its answer. Between the two, it may be there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It came.
    Asked {
        /// Its number.
        id: u64,
        /// What was asked.
        request: Request,
    },
    /// It was answered.
    Answered {
        /// The number with which it came.
        id: u64,
        /// How.
        answer: Answer,
    },
}

/// Requests by kind, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Puts, copies, and beginnings of uploads in parts.
    pub puts: u64,
    /// Reads.
    pub gets: u64,
    /// Lists.
    pub lists: u64,
    /// Deletes.
    pub deletes: u64,
    /// Bytes of puts.
    pub put_bytes: u64,
    /// Bytes of reads that were answered.
    pub get_bytes: u64,
}

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    counts: Counts,
    next: u64,
    /// How many such requests came, by kind and object.
    seen: BTreeMap<(u8, String), u64>,
    /// Puts that are done.
    puts_done: u64,
    events: Option<Vec<Event>>,
}

impl Ledger {
    /// A request comes: its number, and how many such there were before.
    pub(super) fn ask(&mut self, request: &Request) -> (u64, u64) {
        match request {
            Request::Put { bytes, .. } => {
                self.counts.puts += 1;
                self.counts.put_bytes += bytes.len() as u64;
            }
            Request::Upload { .. } | Request::Copy { .. } => self.counts.puts += 1,
            Request::Get { .. } => self.counts.gets += 1,
            Request::List { .. } => self.counts.lists += 1,
            Request::Delete { .. } => self.counts.deletes += 1,
        }
        let id = self.next;
        self.next += 1;
        if request.is_change() {
            self.note(|| Event::Asked { id, request: request.clone() });
        }
        let (kind, path) = request.name();
        let seen = self.seen.entry((kind, path.to_owned())).or_default();
        *seen += 1;
        (id, *seen - 1)
    }

    /// A request is answered.
    pub(super) fn answer(&mut self, id: u64, request: &Request, answer: Answer) {
        if request.is_change() {
            self.note(|| Event::Answered { id, answer });
        }
        self.puts_done += u64::from(matches!(request, Request::Put { .. }));
    }

    pub(super) fn got(&mut self, bytes: u64) {
        self.counts.get_bytes += bytes;
    }

    pub(super) fn puts_done(&self) -> u64 {
        self.puts_done
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn record(&mut self) {
        self.events = Some(Vec::new());
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.clone().unwrap_or_default()
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.push(event());
        }
    }
}
