//! A target in this process that is not ours: another ext4 crate, on fresh images only, as it may damage them.
//!
//! Taken is rust-fs-ext4 0.8.0 (MIT): JBD2 is written. Each call is a transaction with its data, at its final location
//! when it returns, by four flushes; an fsync is one more. Calls that read go side by side, as its documentation asks.
//!
//! Not taken:
//!
//! - rsext4 0.9.2 (Apache-2.0): metadata only, and it has damaged its images.
//! - ext4_rs 1.3.3 (MIT): no journal, its device cannot flush, it does not build on stable Rust.
//! - ext4plus 0.1.0-rc.2 (MIT or Apache-2.0): the journal is read and not written, its device cannot flush, no rename.
//! - ext4-view 1.0.0 (MIT or Apache-2.0): it only reads.
//! - lwext4_rust 0.2.0: GPL-2.0.

mod rust_fs_ext4;

use super::device::Modelled;
use super::peers::{fresh_image, make_fs};
use super::session::{Foreign, Session, Setting};
use super::spec::{CRATE, Fresh, KernelFs};
use super::unique_name;
use crate::BenchError;
use crate::counters::Probe;
use crate::error::Context;
use crate::fs::crate_fs::{CrateFs, Watched};
use crate::guarantee;
use ondol_block::{Access, BlockStore, FileStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A fresh ext4 image, mounted by the crate.
pub(super) fn open(fresh: &Fresh, setting: &Setting) -> Result<Session, BenchError> {
    let image = fresh_image(fresh, setting)?;
    make_fs(KernelFs::Ext4, fresh, image.path())?;
    let device = Modelled::of(fresh.on, image.path())?;
    let store: Arc<dyn BlockStore> = match &device {
        Some(device) => device.store(),
        None => open_store(image.path())?,
    };
    let below = Arc::clone(&store);
    let mounted = Watched::mount(CRATE, || rust_fs_ext4::mount(below));
    let mounted = mounted.context(|| image.path().display().to_string())?;
    let files = CrateFs::new(Arc::clone(&mounted), &unique_name()).context(|| image.path().display().to_string())?;
    Ok(Session {
        fs: Box::new(files),
        guarantee: guarantee::of_crate(fresh).to_owned(),
        probe: Probe::Store(store),
        work: None,
        volume: None,
        foreign: Some(Box::new(mounted)),
        nvm: None,
        mount: None,
        device,
        image: Some(image),
        pool: None,
        below: None,
    })
}

fn open_store(image: &Path) -> Result<Arc<dyn BlockStore>, BenchError> {
    let store = FileStore::open(image, Access::Write).map_err(|e| io::Error::other(e.to_string()));
    Ok(Arc::new(store.context(|| image.display().to_string())?))
}

impl Foreign for Arc<Watched> {
    fn unmount(self: Box<Self>) -> io::Result<()> {
        Watched::unmount(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Program;
    use crate::fs::tests::exercise;
    use crate::fs::{Append, Durable};
    use std::thread;

    fn opened(dir: &Path) -> Session {
        let setting =
            Setting { program: "none".into(), dir: dir.to_owned(), image_size: 256 << 20, footprint: 1 << 20 };
        open(&Fresh::default(), &setting).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Closes it; what it has written must be whole, and nothing of it stays.
    fn close(session: Session, dir: &Path) {
        let (ended, closed) = session.close();
        ended.expect("unmounted");
        assert_eq!(closed.damage().expect("e2fsck"), None);
        closed.remove().expect("removed");
        assert_eq!(std::fs::read_dir(dir).expect("read").count(), 0);
    }

    fn can() -> bool {
        let can = Program::new("mke2fs").is_ok();
        if !can {
            ondol_skips::skip("mke2fs is missing");
        }
        can
    }

    #[test]
    fn they_do_what_files_do() {
        if can() {
            let dir = tempfile::tempdir().expect("a directory");
            let session = opened(dir.path());
            let before = session.counters().expect("counters");
            exercise(session.fs.as_ref());
            let counted = session.counters().expect("counters").since(before);
            assert!(counted.device.is_some_and(|device| device.flushes > 0), "{counted:?}");
            assert!(counted.device.is_some_and(|device| device.written_bytes > 4096), "{counted:?}");
            close(session, dir.path());
        }
    }

    #[test]
    fn threads_share_them() {
        if can() {
            let dir = tempfile::tempdir().expect("a directory");
            let session = opened(dir.path());
            let root = session.fs.root();
            thread::scope(|scope| {
                for thread in 0..4 {
                    let root = &root;
                    scope.spawn(move || {
                        for n in 0..20 {
                            let name = format!("{thread}-{n}");
                            let mut file = root.create(&name, Append::Flag).expect("create");
                            file.append(name.as_bytes()).expect("append");
                            file.fsync(Durable::All).expect("fsync");
                            let mut buf = [0; 16];
                            let len = file.read_at(0, &mut buf).expect("read");
                            assert_eq!(buf.get(..len), Some(name.as_bytes()));
                            file.close().expect("close");
                            if n % 2 == 0 {
                                root.unlink(&name).expect("unlink");
                            }
                        }
                    });
                }
            });
            assert_eq!(root.list().expect("list").len(), 40);
            drop(root);
            close(session, dir.path());
        }
    }
}
