//! From chunks to their values, on several threads when there are many.

use super::change::Put;
use super::{Home, HomeError};
use crate::ChunkFormat;
use crate::format::Scratch;
use ondol_env::sync::thread;

/// So many bytes are worth a thread.
const WORTH: usize = 512 << 10;

/// More threads would not help: the store is slower.
const MOST: usize = 4;

/// How many this machine has for it.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

impl Home {
    /// The values of chunks, in the same order.
    pub(super) fn encode_all<C: AsRef<[u8]> + Sync>(&self, chunks: &[(u64, C)]) -> Result<Vec<Put>, HomeError> {
        let bytes = chunks.len() * self.format.size().bytes();
        let threads = (bytes / WORTH).clamp(1, self.encoders);
        let encoded = encode(self.format, chunks, threads);
        encoded.map_err(|source| HomeError::Chunk { name: self.bucket.name.clone(), source })
    }
}

fn encode<C: AsRef<[u8]> + Sync>(
    format: ChunkFormat,
    chunks: &[(u64, C)],
    threads: usize,
) -> Result<Vec<Put>, crate::ChunkError> {
    let some = |chunks: &[(u64, C)]| {
        let mut scratch = Scratch::default();
        let mut value = |(number, chunk): &(u64, C)| {
            let value = format.encode_with(*number, chunk.as_ref(), &mut scratch)?;
            Ok((*number, value.map(Into::into)))
        };
        chunks.iter().map(&mut value).collect::<Result<Vec<Put>, _>>()
    };
    if threads <= 1 {
        return some(chunks);
    }
    let (own, others) = chunks.split_at(chunks.len() / threads);
    std::thread::scope(|scope| {
        let parts = others.chunks(others.len().div_ceil(threads - 1));
        let others: Vec<_> = parts.map(|part| scope.spawn(move || some(part))).collect();
        let mut puts = some(own)?;
        for other in others {
            match other.join() {
                Ok(more) => puts.extend(more?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(puts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChunkSize;

    #[test]
    fn threads_change_neither_values_nor_their_order() {
        let format = ChunkFormat::new(7, ChunkSize::MIN);
        let chunk = |n: u64| -> Vec<u8> { (0..4096u64).map(|at| (at * n % 251 * (n % 3)) as u8).collect() };
        let chunks: Vec<(u64, Vec<u8>)> = (0..100).map(|n| (n * 3, chunk(n))).collect();
        let one = encode(format, &chunks, 1).unwrap();
        assert_eq!(one.len(), 100);
        for (put, (number, chunk)) in one.iter().zip(&chunks) {
            assert_eq!(put.0, *number);
            let expected = format.encode(*number, chunk).unwrap();
            assert_eq!(put.1.as_deref(), expected.as_deref());
        }
        for threads in [2, 3, 4, 99, 100] {
            assert_eq!(encode(format, &chunks, threads).unwrap(), one, "{threads}");
        }
        let short = [(1, vec![1; 4096]), (2, vec![1; 4095])];
        assert!(encode(format, &short, 2).is_err());
    }
}
