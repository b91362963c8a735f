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
        /// Under which condition.
        mode: Mode,
    },
    /// An upload in parts begins.
    Upload {
        /// The object.
        path: Path,
    },
    /// A part of such an upload.
    Part {
        /// The object.
        path: Path,
        /// Parts before it.
        number: usize,
        /// Its bytes.
        bytes: u64,
    },
    /// Such an upload ends: from now on there is the object.
    Complete {
        /// The object.
        path: Path,
        /// What it is to hold.
        bytes: Bytes,
    },
    /// Such an upload is given up.
    Abort {
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
        /// Under which condition.
        mode: Mode,
    },
}

/// Under which condition an object is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Under none.
    Overwrite,
    /// It is not there.
    Create,
    /// It is as it was.
    Update,
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
            Self::Part { path, .. } => (6, path.as_ref()),
            Self::Complete { path, .. } => (7, path.as_ref()),
            Self::Abort { path } => (8, path.as_ref()),
        }
    }

    fn is_change(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Complete { .. } | Self::Copy { .. } | Self::Delete { .. })
    }

    /// The object that holds something else afterwards.
    pub(super) fn put(&self) -> Option<&Path> {
        match self {
            Self::Put { path, .. } | Self::Complete { path, .. } | Self::Copy { to: path, .. } => Some(path),
            _ => None,
        }
    }
}

/// How a change was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was acknowledged.
    Done,
    /// The store says that a condition does not hold, or that there is nothing to do it with: nothing was done.
    Refused,
    /// It failed. It may have been done all the same, also later.
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
    /// Puts and copies.
    pub puts: u64,
    /// Beginnings, ends and cancellations of uploads in parts.
    pub uploads: u64,
    /// Parts of such uploads.
    pub parts: u64,
    /// Reads.
    pub gets: u64,
    /// Lists.
    pub lists: u64,
    /// Deletes.
    pub deletes: u64,
    /// Bytes of puts and parts.
    pub put_bytes: u64,
    /// Bytes of puts among them that were refused.
    pub refused_bytes: u64,
    /// Bytes of reads that were answered.
    pub get_bytes: u64,
}

/// Who wants to know how many events there are.
#[derive(Default)]
struct Listener(Option<Box<dyn Fn(usize) + Send + Sync>>);

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    counts: Counts,
    /// Reads that are under way, and the most of them since somebody asked.
    reading: u64,
    most_reading: u64,
    next: u64,
    /// How many such requests came, by kind and object.
    seen: BTreeMap<(u8, String), u64>,
    /// Puts that are done.
    puts_done: u64,
    /// What was put last.
    newest: Option<Path>,
    events: Option<Vec<Event>>,
    listener: Listener,
}

impl Ledger {
    /// A request comes: its number, and how many such there were before.
    pub(super) fn ask(&mut self, request: &Request) -> (u64, u64) {
        match request {
            Request::Put { bytes, .. } => {
                self.counts.puts += 1;
                self.counts.put_bytes += bytes.len() as u64;
            }
            Request::Copy { .. } => self.counts.puts += 1,
            Request::Upload { .. } | Request::Complete { .. } | Request::Abort { .. } => self.counts.uploads += 1,
            Request::Part { bytes, .. } => {
                self.counts.parts += 1;
                self.counts.put_bytes += bytes;
            }
            Request::Get { .. } => {
                self.counts.gets += 1;
                self.reading += 1;
                self.most_reading = self.most_reading.max(self.reading);
            }
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
        if let (Request::Put { bytes, .. }, Answer::Refused) = (request, answer) {
            self.counts.refused_bytes += bytes.len() as u64;
        }
        if let Some(path) = request.put().filter(|_| answer == Answer::Done) {
            self.newest = Some(path.clone());
        }
    }

    /// A read is answered, or whoever asked wants no answer any more.
    pub(super) fn read(&mut self) {
        self.reading -= 1;
    }

    pub(super) fn most_reading(&mut self) -> u64 {
        std::mem::replace(&mut self.most_reading, self.reading)
    }

    pub(super) fn got(&mut self, bytes: u64) {
        self.counts.get_bytes += bytes;
    }

    pub(super) fn newest(&self) -> Option<Path> {
        self.newest.clone()
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

    pub(super) fn record_telling(&mut self, tell: Box<dyn Fn(usize) + Send + Sync>) {
        self.record();
        self.listener = Listener(Some(tell));
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.clone().unwrap_or_default()
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.push(event());
            if let Listener(Some(tell)) = &self.listener {
                tell(events.len());
            }
        }
    }
}
