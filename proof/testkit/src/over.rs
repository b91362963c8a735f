//! What a store over another one passes on as it is.

/// The calls of a [`ondol_block::BlockStore`] that are those of the store in the field `inner`.
macro_rules! passed_on {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn size(&self) -> u64 {
            self.inner.size()
        }

        fn read(&self, offset: u64, buf: &mut [u8]) -> ondol_block::Result<()> {
            self.inner.read(offset, buf)
        }

        fn write_vectored(&self, offset: u64, bufs: &[std::io::IoSlice<'_>]) -> ondol_block::Result<()> {
            self.inner.write_vectored(offset, bufs)
        }

        fn flush(&self) -> ondol_block::Result<()> {
            self.inner.flush()
        }

        fn discard(&self, offset: u64, len: u64) -> ondol_block::Result<bool> {
            self.inner.discard(offset, len)
        }

        fn stats(&self) -> ondol_block::BlockStats {
            self.inner.stats()
        }
    };
}

pub(crate) use passed_on;
