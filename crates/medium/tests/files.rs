//! Files as NVM: on tmpfs, and on a disk.

use ondol_medium::{Access, Domain, MediumKind, Nvm, NvmError, NvmOptions};
use ondol_power::{Event, PowerDomain};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn reading() -> NvmOptions {
    NvmOptions { access: Access::Read, ..NvmOptions::default() }
}

fn store_and_reopen(dir: &Path) -> Nvm {
    let path = dir.join("nvm");
    let nvm = Nvm::create(&path, 1 << 20, &NvmOptions::default()).unwrap();
    let mut batch = nvm.stored();
    batch.store(5000, b"warm").unwrap();
    batch.copy(8192, &[7; 4096]).unwrap();
    batch.write_back().fence().unwrap().publish(0, 42).unwrap();
    assert_eq!(nvm.stats().fences, 2);
    drop(nvm);
    let nvm = Nvm::open(&path, &reading()).unwrap();
    assert_eq!(nvm.load_u64(0).unwrap(), 42);
    let bytes = nvm.to_bytes().unwrap();
    assert_eq!((&bytes[5000..5004], &bytes[8192..12288]), (&b"warm"[..], &[7; 4096][..]));
    assert!(matches!(nvm.stored().store(0, &[1]), Err(NvmError::ReadOnly { .. })));
    assert!(nvm.stored().copy(0, &[1; 64]).is_err() && nvm.stored().fetch_add(0, 1).is_err());
    nvm
}

#[test]
fn a_file_in_memory_is_a_stand_in() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return ondol_skips::skip("there is no /dev/shm");
    }
    let dir = tempfile::tempdir_in(shm).unwrap();
    let nvm = store_and_reopen(dir.path());
    assert_eq!((nvm.kind(), nvm.domain()), (MediumKind::Tmpfs, Domain::Volatile));
    assert!(nvm.describe().contains("neither a kernel crash nor a power cut"));
}

#[test]
fn a_file_on_a_disk_is_written_by_msync() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let nvm = store_and_reopen(dir.path());
    match nvm.kind() {
        MediumKind::File => assert_eq!(nvm.domain(), Domain::Msync),
        kind => ondol_skips::skip(format!("the build directory lies on {}, not on a disk", kind.name())),
    }
}

#[test]
fn a_sparse_file_gets_its_blocks() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    drop(Nvm::open(&path, &NvmOptions::default()).unwrap());
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
}

#[test]
fn one_writer_or_many_readers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nvm");
    let writer = Nvm::create(&path, 8192, &NvmOptions::default()).unwrap();
    for options in [NvmOptions::default(), reading()] {
        let error = Nvm::open(&path, &options).unwrap_err();
        assert!(matches!(error, NvmError::Locked { .. }) && error.to_string().contains("nvm is in use"), "{error}");
    }
    drop(writer);
    let readers = (Nvm::open(&path, &reading()).unwrap(), Nvm::open(&path, &reading()).unwrap());
    assert!(matches!(Nvm::create(&path, 8192, &NvmOptions::default()), Err(NvmError::Locked { .. })));
    drop(readers);
    Nvm::open(&path, &NvmOptions::default()).unwrap();
}

#[test]
fn what_cannot_be_nvm_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("small");
    std::fs::write(&path, [0; 4095]).unwrap();
    let message = |path: &Path, options: &NvmOptions| Nvm::open(path, options).unwrap_err().to_string();
    assert!(
        message(&path, &NvmOptions::default()).contains("small cannot be used as NVM: it has less than 4096 bytes")
    );
    assert!(message(dir.path(), &reading()).contains("neither a DAX device nor a file"));
    assert!(message(Path::new("/dev/null"), &reading()).contains("no DAX device"));
    assert!(message(&dir.path().join("missing"), &reading()).contains("cannot open"));
}

#[test]
fn a_file_is_extended_and_never_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nvm");
    std::fs::write(&path, [1; 5000]).unwrap();
    assert_eq!(Nvm::create(&path, 4096, &NvmOptions::default()).unwrap().size(), 4096);
    let nvm = Nvm::create(&path, 8192, &NvmOptions::default()).unwrap();
    assert_eq!(nvm.size(), 8192);
    assert_eq!(nvm.to_bytes().unwrap(), [&[1; 5000][..], &[0; 3192]].concat());
}

#[test]
fn msync_begins_at_the_fence() {
    let dir = tempfile::tempdir().unwrap();
    let power = PowerDomain::new();
    let options = NvmOptions { domain: Domain::Msync, ..NvmOptions::default() };
    let nvm = Nvm::create(&dir.path().join("nvm"), 8192, &options).unwrap().record(power.clone(), 0);
    let (mut one, mut two) = (nvm.stored(), nvm.stored());
    one.store(4090, &[1; 10]).unwrap();
    two.store(0, &[2]).unwrap();
    let written = one.write_back().and(two.write_back()).unwrap();
    let before = power.take();
    assert!(before.iter().all(|e| matches!(e, Event::Store { .. })), "{before:?}");
    written.fence().unwrap();
    let begun = |e: &Event| if let Event::WriteBack { offset, len, .. } = e { Some((*offset, *len)) } else { None };
    let events = power.take();
    assert_eq!(events.iter().filter_map(begun).collect::<Vec<_>>(), [(0, 64), (4032, 128)]);
    assert!(matches!(events.last(), Some(Event::Fence { .. })));
}
