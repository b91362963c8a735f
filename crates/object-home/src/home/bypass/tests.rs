use super::*;
use crate::Border;
use object_store::memory::InMemory;
use object_store::{Error, ObjectStoreExt, PutMode};
use slatedb::object_store_tag::TableStoreKind;

const LIMIT: usize = 100;

struct Rig {
    border: Border,
    inner: Arc<InMemory>,
    bypass: Arc<Bypass>,
}

impl Rig {
    fn new() -> Self {
        let (border, inner) = (Border::new(1).unwrap(), Arc::new(InMemory::new()));
        let bypass = Bypass::new(inner.clone(), LIMIT, Arc::default());
        Self { border, inner, bypass }
    }

    fn put(&self, path: &str, len: usize, kind: SstType) -> Result<PutResult> {
        let extensions = ObjectStoreCallTag::new(TableStoreKind::Main, kind).into();
        let opts = PutOptions { mode: PutMode::Create, extensions, ..PutOptions::default() };
        self.border.drive(self.bypass.put_opts(&Path::from(path), PutPayload::from(vec![7; len]), opts))
    }

    /// Puts an object of the log: the bytes that are there then.
    fn log(&self, number: u64, len: usize) -> u64 {
        let path = format!("db/wal/{number:020}.sst");
        self.put(&path, len, SstType::Wal).unwrap();
        self.border.drive(self.inner.head(&Path::from(path))).unwrap().size
    }

    fn known(&self) -> Vec<(u64, u64)> {
        self.bypass.empty().changed().unwrap_or_default()
    }
}

#[test]
fn small_objects_pass_and_large_ones_and_what_follows_are_left_out_until_the_manifest_has_them() {
    let rig = Rig::new();
    assert_eq!((rig.log(1, 99), rig.bypass.is_pending()), (99, false));
    assert_eq!((rig.log(2, 100), rig.bypass.is_pending()), (0, true));
    assert_eq!(rig.log(3, 5), 0);
    let begun = rig.bypass.begin();
    // The flush's own.
    assert_eq!(rig.log(4, 5), 0);
    assert!(rig.bypass.end(begun, 7, 7) && rig.bypass.is_pending());
    assert!(rig.bypass.reopen(begun) && !rig.bypass.is_pending());
    assert_eq!(rig.log(5, 5), 5);
    assert_eq!(rig.known(), [(2, 4)]);
    // Other objects, and fences.
    rig.put("db/compacted/x.sst", 1000, SstType::Compacted).unwrap();
    assert_eq!(rig.border.drive(rig.inner.head(&Path::from("db/compacted/x.sst"))).unwrap().size, 1000);
    assert_eq!(rig.log(6, 0), 0);
    assert!(!rig.bypass.is_pending() && rig.known().is_empty());
}

#[test]
fn what_is_left_out_beside_a_flush_keeps_it_open() {
    let rig = Rig::new();
    rig.log(1, 100);
    let begun = rig.bypass.begin();
    rig.log(2, 200);
    assert!(!rig.bypass.end(begun, 7, 7) && rig.bypass.is_pending());
    let begun = rig.bypass.begin();
    drop(rig.bypass.beside());
    assert!(!rig.bypass.end(begun, 7, 7));
    let beside = rig.bypass.beside();
    let begun = rig.bypass.begin();
    assert!(!rig.bypass.end(begun, 7, 7));
    let begun = rig.bypass.begin();
    drop(beside);
    assert!(!rig.bypass.end(begun, 7, 7));
    // The log has taken more than the manifest has.
    let begun = rig.bypass.begin();
    assert!(!rig.bypass.end(begun, 6, 7) && rig.bypass.is_pending());
    // Something is flushed while the note is written.
    let begun = rig.bypass.begin();
    assert!(rig.bypass.end(begun, 7, 7));
    drop(rig.bypass.beside());
    assert!(!rig.bypass.reopen(begun));
    let begun = rig.bypass.begin();
    assert!(rig.bypass.end(begun, 8, 7));
    // Before the note is written.
    assert_eq!(rig.log(3, 5), 0);
    assert!(!rig.bypass.reopen(begun) && rig.bypass.is_pending());
}

#[test]
fn what_is_put_again_is_as_it_was() {
    let rig = Rig::new();
    let path = format!("db/wal/{:020}.sst", 2);
    rig.log(1, 100);
    assert_eq!(rig.log(2, 5), 0);
    let begun = rig.bypass.begin();
    assert!(rig.bypass.end(begun, 7, 7) && rig.bypass.reopen(begun));
    // The answer was lost: with its rows, it would not be what is there.
    let again = rig.put(&path, 5, SstType::Wal);
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    assert!(rig.bypass.is_pending());
    let begun = rig.bypass.begin();
    assert!(rig.bypass.end(begun, 7, 7) && rig.bypass.reopen(begun));
    rig.border.drive(rig.inner.delete(&Path::from(path.clone()))).unwrap();
    rig.put(&path, 5, SstType::Wal).unwrap();
    assert_eq!(rig.border.drive(rig.inner.head(&Path::from(path))).unwrap().size, 0);
}
