//! Bytes as choices. What ends early goes on as zeros, so that every input means something and short ones stay short.

/// The rest of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.split(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.split(N);
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }

    /// Up to `n` bytes.
    pub(crate) fn split(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        head
    }

    /// Everything that is left.
    pub(crate) fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let word = if n <= 256 { usize::from(self.u8()) } else { usize::from(self.u16()) };
        word % n
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// True once in `n` times, and never when the input has ended.
    pub(crate) fn one_in(&mut self, n: u8) -> bool {
        self.u8() % n == n - 1
    }
}
