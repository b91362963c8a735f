//! What a store may hold when power is lost while requests are under way.
//!
//! A put or delete is one event, whole or not. What was acknowledged is there. What was asked for and not answered, or
//! failed, may be there or not, each independently of the others. A put with a condition is there only if the condition
//! holds. What the store has refused was not done.

use super::{Answer, Event, Mode, Request, Unruly};
use bytes::Bytes;
use futures_util::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, Result};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Objects by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects(BTreeMap<Path, Bytes>);

/// A store in memory answers at once.
fn now<T>(work: impl Future<Output = Result<T>>) -> T {
    match work.now_or_never() {
        Some(Ok(done)) => done,
        Some(Err(e)) => panic!("a store in memory: {e}"),
        None => panic!("a store in memory does not wait"),
    }
}

impl Objects {
    /// What is in a store that is over one in memory.
    ///
    /// # Panics
    /// It is over another one, which fails or waits.
    pub fn of(store: &Unruly) -> Self {
        let listed: Vec<ObjectMeta> = now(store.inner().list(None).try_collect());
        let bytes = |path: &Path| now(async { store.inner().get(path).await?.bytes().await });
        Self(listed.into_iter().map(|meta| (meta.location.clone(), bytes(&meta.location))).collect())
    }

    /// A store in memory that holds them.
    pub fn store(&self) -> Unruly {
        let store = InMemory::new();
        for (path, bytes) in &self.0 {
            now(store.put(path, bytes.clone().into()));
        }
        Unruly::new(Arc::new(store))
    }

    /// Names and bytes, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_ref(), &bytes[..]))
    }

    /// Equal for equal objects, and for no others that anybody meets.
    pub fn fingerprint(&self) -> u128 {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            self.iter().for_each(|object| object.hash(&mut hasher));
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }
}

impl FromIterator<(String, Vec<u8>)> for Objects {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(objects: I) -> Self {
        Self(objects.into_iter().map(|(name, bytes)| (Path::from(name), bytes.into())).collect())
    }
}

/// A change that may be there or not.
#[derive(Clone, Debug)]
struct Open {
    request: Request,
    /// How many events there were when it came.
    at: usize,
}

/// The instant after some events.
#[derive(Clone, Debug)]
pub struct StoreCut {
    objects: Objects,
    open: BTreeMap<u64, Open>,
    /// When an object was changed last.
    changed: BTreeMap<Path, usize>,
    events: usize,
}

impl StoreCut {
    /// Of a store that holds `base`, before anything is asked.
    pub fn new(base: Objects) -> Self {
        Self { objects: base, open: BTreeMap::new(), changed: BTreeMap::new(), events: 0 }
    }

    /// Events so far.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Goes on by one event.
    pub fn advance(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Asked { id, request } => {
                self.open.insert(*id, Open { request: request.clone(), at: self.events });
            }
            Event::Answered { id, answer } => match answer {
                Answer::Failed => {}
                Answer::Refused => drop(self.open.remove(id)),
                Answer::Done => {
                    let Some(open) = self.open.remove(id) else { return };
                    if let Some(path) = target(&open.request) {
                        self.changed.insert(path.clone(), self.events);
                    }
                    apply(&mut self.objects, &open.request);
                }
            },
        }
    }

    /// What may be there or not, in words, in the order in which it came.
    pub fn open(&self) -> Vec<String> {
        self.open.values().map(|open| told(&open.request)).collect()
    }

    /// The objects if those of [`StoreCut::open`] are there for which `keep` says so, and whose conditions hold.
    pub fn build(&self, keep: &[bool]) -> Objects {
        let mut objects = self.objects.clone();
        let kept = self.open.values().zip(keep).filter(|(_, keep)| **keep);
        for (open, _) in kept {
            if self.holds(&objects, open) {
                apply(&mut objects, &open.request);
            }
        }
        objects
    }

    /// Whether the condition of a change holds. An object that was changed since is not as it was.
    fn holds(&self, objects: &Objects, open: &Open) -> bool {
        let is_there = |path: &Path| objects.0.contains_key(path);
        match &open.request {
            Request::Put { path, mode: Mode::Create, .. } => !is_there(path),
            Request::Put { path, mode: Mode::Update, .. } => {
                is_there(path) && self.changed.get(path).is_none_or(|changed| *changed < open.at)
            }
            Request::Copy { from, to, mode } => is_there(from) && (*mode != Mode::Create || !is_there(to)),
            _ => true,
        }
    }
}

fn target(request: &Request) -> Option<&Path> {
    match request {
        Request::Delete { path } => Some(path),
        other => other.put(),
    }
}

fn apply(objects: &mut Objects, request: &Request) {
    match request {
        Request::Put { path, bytes, .. } | Request::Complete { path, bytes } => {
            objects.0.insert(path.clone(), bytes.clone());
        }
        Request::Copy { from, to, .. } => {
            if let Some(bytes) = objects.0.get(from).cloned() {
                objects.0.insert(to.clone(), bytes);
            }
        }
        Request::Delete { path } => drop(objects.0.remove(path)),
        // They change nothing.
        Request::Upload { .. } | Request::Part { .. } | Request::Abort { .. } => {}
        Request::Get { .. } | Request::List { .. } => {}
    }
}

fn told(request: &Request) -> String {
    match request {
        Request::Put { path, bytes, mode } => format!("put {path}, {} bytes, {mode:?}", bytes.len()),
        Request::Complete { path, bytes } => format!("put {path}, {} bytes in parts", bytes.len()),
        Request::Copy { from, to, mode } => format!("copy {from} to {to}, {mode:?}"),
        Request::Delete { path } => format!("delete {path}"),
        other => format!("{other:?}"),
    }
}

/// An event, in words.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked { id, request } => write!(f, "request {id}: {}", told(request)),
            Self::Answered { id, answer } => write!(f, "request {id}: {answer:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, bytes: &'static str, mode: Mode) -> Request {
        Request::Put { path: Path::from(name), bytes: bytes.into(), mode }
    }

    fn asked(id: u64, request: Request) -> Event {
        Event::Asked { id, request }
    }

    fn answered(id: u64, answer: Answer) -> Event {
        Event::Answered { id, answer }
    }

    fn cut(events: &[Event]) -> StoreCut {
        let mut cut = StoreCut::new(Objects::default());
        events.iter().for_each(|event| cut.advance(event));
        cut
    }

    fn names(objects: &Objects) -> Vec<&str> {
        objects.iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn what_was_acknowledged_is_there_and_of_the_rest_each_may_be_or_not() {
        let cut = cut(&[
            asked(1, put("a", "one", Mode::Create)),
            answered(1, Answer::Done),
            asked(2, put("b", "two", Mode::Create)),
            asked(3, put("c", "three", Mode::Create)),
            asked(4, put("d", "four", Mode::Create)),
            answered(4, Answer::Refused),
            answered(3, Answer::Failed),
        ]);
        assert_eq!(cut.open().len(), 2);
        assert_eq!(names(&cut.build(&[false, false])), ["a"]);
        assert_eq!(names(&cut.build(&[true, false])), ["a", "b"]);
        assert_eq!(names(&cut.build(&[false, true])), ["a", "c"]);
        assert_eq!(names(&cut.build(&[true, true])), ["a", "b", "c"]);
    }

    #[test]
    fn a_condition_that_does_not_hold_keeps_a_put_away() {
        let base = [asked(1, put("a", "one", Mode::Overwrite)), answered(1, Answer::Done)];
        let open = [asked(2, put("a", "two", Mode::Create)), asked(3, put("b", "two", Mode::Update))];
        let first = cut(&[&base[..], &open[..]].concat()).build(&[true, true]);
        assert_eq!(first.iter().collect::<Vec<_>>(), [("a", &b"one"[..])]);
        let update = asked(2, put("a", "two", Mode::Update));
        let as_it_was = cut(&[&base[..], std::slice::from_ref(&update)].concat()).build(&[true]);
        assert_eq!(as_it_was.iter().collect::<Vec<_>>(), [("a", &b"two"[..])]);
        let over = [asked(3, put("a", "new", Mode::Overwrite)), answered(3, Answer::Done)];
        let changed = cut(&[&base[..], &[update], &over[..]].concat()).build(&[true]);
        assert_eq!(changed.iter().collect::<Vec<_>>(), [("a", &b"new"[..])]);
    }

    #[test]
    fn a_delete_that_is_under_way_may_be_there_and_objects_come_back_from_a_store() {
        let delete = asked(2, Request::Delete { path: Path::from("a") });
        let cut = cut(&[asked(1, put("a", "one", Mode::Create)), answered(1, Answer::Done), delete]);
        let (there, gone) = (cut.build(&[false]), cut.build(&[true]));
        assert_eq!((names(&there), names(&gone)), (vec!["a"], vec![]));
        assert_ne!(there.fingerprint(), gone.fingerprint());
        let again = Objects::of(&there.store());
        assert_eq!((&again, again.fingerprint()), (&there, there.fingerprint()));
    }
}
