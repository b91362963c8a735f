//! Where in a group a file that grows takes its blocks, so that files that grow at the same time do not lie in each
//! other's way.
//!
//! Behind what a file has last been given lies its *window*: bits that others leave free as long as there is room
//! elsewhere in the group. A window promises nothing and takes nothing out of any count: whoever finds no other place
//! uses it. It grows with the file, and is forgotten when the group has seen many other allocations since it was used.
//!
//! The first place with enough room is taken. So that not all before it is searched each time, a group remembers below
//! which bit there is no run of 1, 2, 4, … clear bits.

use crate::Ino;
use ondol_format::bitmap;
use std::ops::Range;

/// Bits of a file's first window, and of its largest.
const FIRST: usize = 16;
const LARGEST: usize = 2048;

/// Windows of a group; the one that was used longest ago gives way.
const MOST: usize = 64;

/// Allocations in the group after which a window that was not used is forgotten.
const FORGOTTEN: u64 = 4096;

#[derive(Debug)]
struct Window {
    ino: Ino,
    bits: Range<usize>,
    /// The file's next window is of so many bits.
    size: usize,
    used: u64,
}

/// The windows of one group.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    list: Vec<Window>,
    /// Allocations so far.
    clock: u64,
    bounds: Bounds,
}

/// For each power of two, a bit below which no run begins that has so many clear bits outside of windows.
#[derive(Debug, Default)]
struct Bounds(Vec<usize>);

impl Bounds {
    fn class(len: usize) -> usize {
        len.next_power_of_two().trailing_zeros() as usize
    }

    /// Where a search for `len` bits may begin. Shorter runs than the next power of two may lie before.
    fn get(&self, len: usize) -> usize {
        self.0.get(Self::class(len)).copied().unwrap_or(0)
    }

    /// No run of `len` bits begins before `at`.
    fn rise(&mut self, len: usize, at: usize) {
        let class = Self::class(len);
        if self.0.len() <= class {
            self.0.resize(class + 1, 0);
        }
        self.0[class] = self.0[class].max(at);
    }

    /// There is a run of clear bits.
    fn fall(&mut self, run: Range<usize>) {
        let classes = run.len().checked_ilog2().map_or(0, |class| class as usize + 1);
        self.0.iter_mut().take(classes).for_each(|at| *at = run.start.min(*at));
    }
}

impl Windows {
    /// Up to `want` consecutive clear bits before `end`, from `from` on where that is possible. `stream` is the file
    /// that goes on growing, if one does.
    pub(crate) fn choose(
        &mut self,
        map: &[u8],
        from: usize,
        end: usize,
        want: usize,
        stream: Option<Ino>,
    ) -> Option<Range<usize>> {
        self.clock += 1;
        let now = self.clock;
        while let Some(old) = self.list.iter().position(|w| now - w.used >= FORGOTTEN) {
            let old = self.list.remove(old);
            self.cleared(map, old.bits);
        }
        let own = stream.and_then(|ino| self.list.iter().position(|w| w.ino == ino));
        let size = own.map_or(FIRST, |i| self.list[i].size);
        let is_free = from < end && !bitmap::test(map, from);
        let start = if is_free && self.of_others(from, stream).is_none() {
            from
        } else {
            // A place for the file's window, too, if it has or gets one.
            let room = if stream.is_some() { want.max(size) } else { want };
            self.first_run(map, from..end, room, stream)
                .or_else(|| self.first_run(map, 0..end, room, stream))
                .or_else(|| is_free.then_some(from))
                .or_else(|| bitmap::find_zero_run(map, from, end, want))
                .or_else(|| bitmap::find_zero_run(map, 0, end, want))
                .or_else(|| bitmap::find_next_zero(map, from, end))
                .or_else(|| bitmap::find_next_zero(map, 0, end))?
        };
        let inside = self.of_others(start, stream).map_or(start, |w| w.bits.end);
        let behind = self.list.iter().filter(|w| Some(w.ino) != stream).map(|w| w.bits.start).filter(|s| *s >= inside);
        let limit = behind.min().unwrap_or(end).max(start + 1);
        let stop = bitmap::zero_run_end(map, start, end.min(start + want).min(limit));
        let left = stream.and_then(|ino| self.note(ino, own, start..stop, end, size));
        left.into_iter().for_each(|left| self.cleared(map, left));
        Some(start..stop)
    }

    /// The window of another file that has this bit.
    fn of_others(&self, at: usize, stream: Option<Ino>) -> Option<&Window> {
        self.list.iter().find(|w| Some(w.ino) != stream && w.bits.contains(&at))
    }

    /// Some bits have become clear, or are in no window any more.
    pub(crate) fn cleared(&mut self, map: &[u8], bits: Range<usize>) {
        let mut at = bits.start;
        while let Some(free) = bitmap::find_next_zero(map, at, bits.end) {
            at = bitmap::zero_run_end(map, free, map.len() * 8);
            self.bounds.fall(bitmap::zero_run_start(map, free)..at);
        }
    }

    /// As [`Windows::run_outside`], without what is known to have none.
    fn first_run(&mut self, map: &[u8], place: Range<usize>, len: usize, stream: Option<Ino>) -> Option<usize> {
        let known = self.bounds.get(len);
        let found = self.run_outside(map, place.start.max(known)..place.end, len, stream);
        if place.start <= known {
            self.bounds.rise(len, found.unwrap_or(place.end));
        }
        found
    }

    /// The beginning of `len` consecutive clear bits in no other's window.
    fn run_outside(&self, map: &[u8], place: Range<usize>, len: usize, stream: Option<Ino>) -> Option<usize> {
        let mut at = place.start;
        loop {
            let start = bitmap::find_zero_run(map, at, place.end, len)?;
            let in_the_way = |w: &&Window| Some(w.ino) != stream && w.bits.start < start + len && w.bits.end > start;
            match self.list.iter().filter(in_the_way).map(|w| w.bits.end).max() {
                Some(next) => at = next,
                None => return Some(start),
            }
        }
    }

    /// The file has got these bits and goes on behind them. Returns what is in no window any more.
    fn note(
        &mut self,
        ino: Ino,
        own: Option<usize>,
        got: Range<usize>,
        end: usize,
        size: usize,
    ) -> Option<Range<usize>> {
        let (start, stop) = (got.start, got.end);
        let used = self.clock;
        match own {
            Some(i) if self.list[i].bits.contains(&stop) => {
                let window = &mut self.list[i];
                let before = std::mem::replace(&mut window.bits.start, stop);
                window.used = used;
                Some(before..start)
            }
            own => {
                let window = Window { ino, bits: stop..end.min(stop + size), size: (size * 2).min(LARGEST), used };
                match own {
                    Some(i) => Some(std::mem::replace(&mut self.list[i], window).bits),
                    None => {
                        let oldest = self.list.iter().enumerate().min_by_key(|(_, w)| w.used).map(|(i, _)| i);
                        let oldest = oldest.filter(|_| self.list.len() >= MOST);
                        let before = oldest.map(|i| self.list.swap_remove(i).bits);
                        self.list.push(window);
                        before
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(windows: &mut Windows, map: &mut [u8], from: usize, want: usize, stream: Option<Ino>) -> Range<usize> {
        let end = map.len() * 8;
        let got = windows.choose(map, from, end, want, stream).expect("a free bit");
        assert!(!got.is_empty() && got.len() <= want && got.clone().all(|bit| !bitmap::test(map, bit)));
        bitmap::set_range(map, got.start, got.len());
        got
    }

    #[test]
    fn files_that_grow_bit_by_bit_get_ever_longer_runs() {
        let (mut windows, mut map) = (Windows::default(), vec![0; 4096]);
        let mut ends = [0; 4];
        let mut pieces = [0; 4];
        for _ in 0..2000 {
            for (ino, end) in ends.iter_mut().enumerate() {
                let got = take(&mut windows, &mut map, *end, 1, Some(ino as Ino));
                pieces[ino] += usize::from(got.start != *end);
                *end = got.end;
            }
        }
        assert!(pieces.iter().all(|n| *n <= 9), "{pieces:?}");
    }

    #[test]
    fn a_window_gives_way_when_there_is_no_other_place() {
        let (mut windows, mut map) = (Windows::default(), vec![0; 8]);
        assert_eq!(take(&mut windows, &mut map, 0, 4, Some(1)), 0..4);
        assert_eq!(take(&mut windows, &mut map, 4, 4, None), 20..24, "behind the window");
        assert_eq!(take(&mut windows, &mut map, 24, 40, None), 24..64);
        assert_eq!(take(&mut windows, &mut map, 4, 8, None), 4..12, "nothing else is free");
        assert_eq!(take(&mut windows, &mut map, 4, 20, Some(1)), 12..20);
        assert_eq!(windows.choose(&map, 0, 64, 1, Some(2)), None);
    }

    #[test]
    fn what_is_free_is_found() {
        // Runs are taken and given back at random. Whoever asks for a power of two gets the first run of so many bits
        // that there is.
        let (mut windows, mut map, mut seed) = (Windows::default(), vec![0; 512], 1u64);
        bitmap::set(&mut map, 0);
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let (mut taken, mut whole): (Vec<Range<usize>>, u32) = (Vec::new(), 0);
        for _ in 0..20_000 {
            if taken.len() > 100 + random(100) {
                let run = taken.swap_remove(random(taken.len()));
                bitmap::clear_range(&mut map, run.start, run.len());
                windows.cleared(&map, run);
            }
            let want = 1 << random(6);
            let stream = Some(random(100) as Ino).filter(|ino| *ino < 20);
            let outside = |at: &usize| windows.run_outside(&map, *at..*at + want, want, None) == Some(*at);
            let first = (0..map.len() * 8).find(outside);
            let got = windows.choose(&map, 0, map.len() * 8, want, stream);
            if stream.is_none() && first.is_some() {
                assert_eq!(got.as_ref().map(|run| (run.start, run.len())), first.map(|at| (at, want)));
                whole += 1;
            }
            if let Some(run) = got {
                bitmap::set_range(&mut map, run.start, run.len());
                taken.push(run);
            }
        }
        assert!(whole > 1000, "{whole}");
    }

    #[test]
    fn windows_are_forgotten() {
        let (mut windows, mut map) = (Windows::default(), vec![0; 64]);
        take(&mut windows, &mut map, 0, 1, Some(1));
        for _ in 0..FORGOTTEN {
            let got = take(&mut windows, &mut map, 100, 1, None);
            bitmap::clear_range(&mut map, got.start, got.len());
            windows.cleared(&map, got);
        }
        assert_eq!(take(&mut windows, &mut map, 1, 4, None), 1..5);
        for ino in 0..1000 {
            let got = take(&mut windows, &mut map, 0, 1, Some(ino));
            bitmap::clear_range(&mut map, got.start, got.len());
            windows.cleared(&map, got);
        }
        assert_eq!(windows.list.len(), MOST);
    }
}
