//! The instructions that make stores durable, and those that load whole lines. Every store that must survive a power
//! cut comes through here.
//!
//! | | |
//! |---|---|
//! | write back a line | `clwb`, else `clflushopt`, else `clflush`, found by CPUID |
//! | fence | `sfence`: what this thread wrote back, and its non-temporal stores, have reached the memory controller |
//! | copy whole lines | non-temporal stores, which leave the caches alone and need no write-back |
//! | load whole lines | loads of 16 bytes, each of whose two words is the old or the new one |
//!
//! Elsewhere than on x86-64 there is no write-back ([`Instructions::None`]), and real NVM is refused.
#![expect(unsafe_code, reason = "writes back and loads cache lines")]

use crate::stats::LINE;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// How this processor writes a line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// `clwb`: the line stays in the cache.
    Clwb,
    /// `clflushopt`: the line leaves the cache; several at once.
    ClflushOpt,
    /// `clflush`: the line leaves the cache; one after the other.
    Clflush,
    /// None that Ondol knows.
    None,
}

/// Words in a line.
const WORDS: usize = LINE as usize / size_of::<AtomicU64>();

impl Instructions {
    /// What this processor has.
    pub fn detect() -> Self {
        // Asking a virtual machine's processor takes microseconds.
        static BEST: OnceLock<Instructions> = OnceLock::new();
        *BEST.get_or_init(imp::detect)
    }

    /// The instruction's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
            Self::None => "none",
        }
    }

    /// Begins to write back `lines`, which begin and end at a line. Done at the next [`fence`] of this thread.
    pub(crate) fn write_back(self, lines: &[AtomicU64]) {
        for line in lines.chunks(WORDS) {
            imp::write_back(self, line.as_ptr());
        }
    }
}

/// Waits until this thread's write-backs and non-temporal stores have reached the persistence domain: they are durable,
/// and seen by others, before anything that this thread stores afterwards.
pub(crate) fn fence() {
    imp::fence();
}

/// Copies `src` past the caches to `dst`, which begins at a line and has whole lines, as many bytes as `src`. Durable
/// at the next [`fence`] of this thread; other threads may rely on the order only after it.
///
/// # Panics
/// The sizes differ or are not whole lines: callers cut them.
pub(crate) fn copy_lines(dst: &[AtomicU64], src: &[u8]) {
    let (lines, rest) = src.as_chunks::<{ LINE as usize }>();
    assert!(rest.is_empty() && dst.len() == lines.len() * WORDS, "whole lines");
    assert!(dst.as_ptr().addr().is_multiple_of(LINE as usize), "begins at a line");
    for (to, from) in dst.chunks_exact(WORDS).zip(lines) {
        imp::copy_line(to, from);
    }
}

/// Loads the lines `src`, of which others may store words at the same time, into `dst`, as many bytes.
///
/// # Panics
/// The sizes differ, or it does not begin or end at a line: callers cut them.
pub(crate) fn load_lines(src: &[AtomicU64], dst: &mut [u8]) {
    let (lines, rest) = dst.as_chunks_mut::<{ LINE as usize }>();
    assert!(rest.is_empty() && src.len() == lines.len() * WORDS, "whole lines");
    assert!(lines.is_empty() || src.as_ptr().addr().is_multiple_of(LINE as usize), "begins at a line");
    for (to, from) in lines.iter_mut().zip(src.chunks_exact(WORDS)) {
        imp::load_line(to, from);
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::{Instructions, LINE};
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::atomic::AtomicU64;

    /// CPUID leaf 7: EBX bit 24 is CLWB, bit 23 CLFLUSHOPT. Leaf 1: EDX bit 19 is CLFLUSH, EBX bits 15..8 the line in
    /// units of 8 bytes (Intel SDM vol. 2A, CPUID).
    pub(super) fn detect() -> Instructions {
        // SAFETY: every x86-64 processor has the instruction, and leaf 7 is asked only where it exists.
        #[allow(unused_unsafe, reason = "a safe function in newer Rust, not in the oldest that builds this")]
        let (basic, extended) = unsafe {
            let has_leaf_7 = __cpuid(0).eax >= 7;
            (__cpuid(1), if has_leaf_7 { __cpuid_count(7, 0).ebx } else { 0 })
        };
        let line = u64::from(basic.ebx >> 8 & 0xff) * 8;
        match (basic.edx & 1 << 19 != 0 && line == LINE, extended & 1 << 24 != 0, extended & 1 << 23 != 0) {
            (false, ..) => Instructions::None,
            (true, true, _) => Instructions::Clwb,
            (true, false, true) => Instructions::ClflushOpt,
            (true, false, false) => Instructions::Clflush,
        }
    }

    pub(super) fn write_back(by: Instructions, line: *const AtomicU64) {
        // SAFETY: `line` comes from a slice, so it is mapped; the instructions change no contents, and `detect` (the
        // only source of these values outside of tests, which ask it too) has seen that the processor has them.
        unsafe {
            match by {
                Instructions::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                Instructions::ClflushOpt => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                Instructions::Clflush => asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)),
                Instructions::None => {}
            }
        }
    }

    pub(super) fn fence() {
        // SAFETY: a fence touches nothing; every x86-64 processor has it.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }

    /// Eight aligned words, each stored whole: to other threads like so many relaxed stores, until the fence without an
    /// order.
    pub(super) fn copy_line(to: &[AtomicU64], from: &[u8; LINE as usize]) {
        // SAFETY: the caller has checked that `to` is one aligned line; atomics may be stored to through a shared
        // reference; SSE2 is part of x86-64.
        unsafe {
            asm!(
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movntdq [{to}], {a}",
                "movntdq [{to} + 16], {b}",
                "movntdq [{to} + 32], {c}",
                "movntdq [{to} + 48], {d}",
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                from = in(reg) from.as_ptr(),
                to = in(reg) to.as_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Eight aligned words, each loaded whole: like so many relaxed loads. To the compiler they are an instruction of
    /// its own that reads memory which it knows nothing of, so that a store of another thread is no data race in the
    /// program that it sees; on every x86-64 processor that there is, an aligned word of a 16-byte load is not divided,
    /// and both words lie in one line.
    pub(super) fn load_line(to: &mut [u8; LINE as usize], from: &[AtomicU64]) {
        // SAFETY: the caller has checked that `from` is one aligned line, which is mapped and may be changed by others,
        // since it is of atomics; `to` is ours alone and has as many bytes; SSE2 is part of x86-64.
        unsafe {
            asm!(
                "movdqa {a}, [{from}]",
                "movdqa {b}, [{from} + 16]",
                "movdqa {c}, [{from} + 32]",
                "movdqa {d}, [{from} + 48]",
                "movdqu [{to}], {a}",
                "movdqu [{to} + 16], {b}",
                "movdqu [{to} + 32], {c}",
                "movdqu [{to} + 48], {d}",
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                from = in(reg) from.as_ptr(),
                to = in(reg) to.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::{Instructions, LINE};
    use std::sync::atomic::AtomicU64;

    pub(super) fn detect() -> Instructions {
        Instructions::None
    }

    pub(super) fn write_back(_: Instructions, _: *const AtomicU64) {}

    pub(super) fn fence() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    pub(super) fn copy_line(to: &[AtomicU64], from: &[u8; LINE as usize]) {
        crate::memory::store(to, 0, from);
    }

    pub(super) fn load_line(to: &mut [u8; LINE as usize], from: &[AtomicU64]) {
        crate::memory::load(from, to.as_chunks_mut().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    #[test]
    fn every_instruction_leaves_the_contents() {
        let (_, map) = Map::memory(4096).unwrap();
        let best = Instructions::detect();
        // A processor with the better one has those after it.
        let all = [Instructions::Clwb, Instructions::ClflushOpt, Instructions::Clflush, Instructions::None];
        let from = all.iter().position(|i| *i == best).unwrap();
        for by in &all[from..] {
            crate::memory::store(map.words(), 60, by.name().as_bytes());
            by.write_back(&map.words()[..16]);
            fence();
            let mut found = vec![0; by.name().len()];
            crate::memory::read(map.words(), 60, &mut found);
            assert_eq!(found, by.name().as_bytes());
        }
    }

    #[test]
    fn lines_are_copied_whole_from_any_alignment() {
        let (_, map) = Map::memory(4096).unwrap();
        let source: Vec<u8> = (0..=255).cycle().take(300).collect();
        copy_lines(&map.words()[8..40], &source[3..259]);
        fence();
        let mut found = vec![0; 4096];
        crate::memory::read(map.words(), 0, &mut found);
        assert_eq!(&found[64..320], &source[3..259]);
        assert!(found[..64].iter().chain(&found[320..]).all(|b| *b == 0));
    }
}
