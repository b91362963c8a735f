//! What stores in memory need to take batches.

use crate::{BlockError, BlockStore, Result, check_range};
use ondol_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::io::{Error, ErrorKind};

/// How many bytes a batch may have, if any, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) most: Option<u64>,
    submitted: AtomicU64,
}

impl Batches {
    /// Batches of at most `most` bytes.
    pub(crate) fn of(most: u64) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// Whether `store` can take this batch. Returns its bytes.
    ///
    /// # Errors
    /// As [`BlockStore::submit`].
    pub(crate) fn check(
        &self,
        store: &dyn BlockStore,
        writes: &[(u64, &[u8])],
        discards: &[(u64, u64)],
    ) -> Result<u64> {
        let bytes = writes.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let refused = |why: String| {
            let source = Error::new(ErrorKind::Unsupported, why);
            Err(BlockError::Io { op: "submit", name: store.name().to_owned(), offset: 0, len: bytes, source })
        };
        match self.most {
            None => return refused("it takes no batches".into()),
            Some(most) if bytes > most => return refused(format!("a batch has at most {most} bytes")),
            Some(_) => {}
        }
        let written = writes.iter().map(|(offset, bytes)| (*offset, bytes.len() as u64));
        for (offset, len) in written.chain(discards.iter().copied()) {
            check_range("submit", store.name(), offset, len, store.size())?;
        }
        Ok(bytes)
    }

    /// The number of a batch that has happened.
    pub(crate) fn number(&self) -> u64 {
        self.submitted.fetch_add(1, SeqCst) + 1
    }

    /// Whether there is such a batch.
    ///
    /// # Errors
    /// As [`BlockStore::settle`].
    pub(crate) fn settle(&self, name: &str, number: u64) -> Result<()> {
        if self.most.is_some() && (1..=self.submitted.load(SeqCst)).contains(&number) {
            return Ok(());
        }
        let source = Error::new(ErrorKind::InvalidInput, "there is no such batch");
        Err(BlockError::Io { op: "settle", name: name.to_owned(), offset: number, len: 0, source })
    }
}

#[cfg(test)]
mod tests {
    use crate::{BlockStore, LayerStore, OverlayStore, RamStore};
    use ondol_env::sync::Arc;
    use ondol_power::Layer;

    #[test]
    fn a_batch_happens_or_is_refused_whole() {
        let ram = RamStore::new(8192).with_batches(4096);
        let layer = LayerStore::new(Layer::new(vec![0; 8192])).with_batches(4096);
        for store in [&ram as &dyn BlockStore, &layer] {
            assert_eq!(store.caps().batch, Some(4096));
            let read = |at: u64| {
                let mut byte = [0];
                store.read(at, &mut byte).unwrap();
                byte[0]
            };
            store.write(4096, &[7; 1024]).unwrap();
            let first = store.submit(&[(0, &[1; 512]), (1024, &[2; 512])], &[(4096, 512)]).unwrap();
            assert_eq!([0, 512, 1024, 4096, 4608].map(read), [1, 0, 2, 0, 7]);
            assert!(store.submit(&[(0, &[3; 512]), (8192, &[3; 512])], &[]).is_err(), "outside");
            assert!(store.submit(&[(0, &[3; 512])], &[(8000, 512)]).is_err(), "outside");
            assert!(store.submit(&[(0, &[3; 2048]), (2048, &[3; 2049])], &[]).is_err(), "too much");
            assert_eq!(read(0), 1);
            let second = store.submit(&[], &[(0, 512)]).unwrap();
            assert!(second > first && read(0) == 0);
            store.settle(second).unwrap();
            store.settle(first).unwrap();
            assert!(store.settle(second + 1).is_err(), "nobody has submitted it");
        }
    }

    #[test]
    fn who_takes_no_batches_says_so_by_name() {
        let below = Arc::new(RamStore::new(8192).with_batches(4096));
        let stores: [&dyn BlockStore; 2] = [&RamStore::new(8192), &OverlayStore::new(below)];
        for store in stores {
            assert_eq!(store.caps().batch, None);
            let said = store.submit(&[(0, &[1])], &[]).unwrap_err().to_string();
            assert!(
                said.starts_with("submit") && said.contains("memory") && said.ends_with("takes no batches"),
                "{said}"
            );
            assert!(store.settle(1).is_err());
        }
    }
}
