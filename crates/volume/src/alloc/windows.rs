//! Where in a group a file that grows takes its blocks, so that files that grow at the same time do not lie in each other's way.
//!
//! Behind what a file has last been given lies its *window*: bits that others leave free as long as there is room elsewhere in
//! the group. A window promises nothing and takes nothing out of any count: whoever finds no other place uses it. It grows with
//! the file, and is forgotten when the group has seen many other allocations since it was used.

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
}

impl Windows {
    /// Up to `want` consecutive clear bits before `end`, from `from` on where that is possible. `stream` is the file that goes on
    /// growing, if one does.
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
        self.list.retain(|w| now - w.used < FORGOTTEN);
        let own = stream.and_then(|ino| self.list.iter().position(|w| w.ino == ino));
        let size = own.map_or(FIRST, |i| self.list[i].size);
        let of_others = |at: usize| self.list.iter().find(|w| Some(w.ino) != stream && w.bits.contains(&at));
        let is_free = from < end && !bitmap::test(map, from);
        let start = if is_free && of_others(from).is_none() {
            from
        } else {
            // A place for the file's window, too, if it has or gets one.
            let room = if stream.is_some() { want.max(size) } else { want };
            let run = |at, end| self.run_outside(map, at..end, room, stream);
            run(from, end)
                .or_else(|| run(0, end))
                .or_else(|| is_free.then_some(from))
                .or_else(|| bitmap::find_zero_run(map, from, end, want))
                .or_else(|| bitmap::find_zero_run(map, 0, end, want))
                .or_else(|| bitmap::find_next_zero(map, from, end))
                .or_else(|| bitmap::find_next_zero(map, 0, end))?
        };
        let inside = of_others(start).map_or(start, |w| w.bits.end);
        let behind = self.list.iter().filter(|w| Some(w.ino) != stream).map(|w| w.bits.start).filter(|s| *s >= inside);
        let limit = behind.min().unwrap_or(end).max(start + 1);
        let stop = bitmap::zero_run_end(map, start, end.min(start + want).min(limit));
        if let Some(ino) = stream {
            self.note(ino, own, stop, end, size);
        }
        Some(start..stop)
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

    /// The file goes on at `stop`.
    fn note(&mut self, ino: Ino, own: Option<usize>, stop: usize, end: usize, size: usize) {
        let used = self.clock;
        match own {
            Some(i) if self.list[i].bits.contains(&stop) => {
                let window = &mut self.list[i];
                (window.bits.start, window.used) = (stop, used);
            }
            own => {
                let window = Window { ino, bits: stop..end.min(stop + size), size: (size * 2).min(LARGEST), used };
                match own {
                    Some(i) => self.list[i] = window,
                    None => {
                        let oldest = self.list.iter().enumerate().min_by_key(|(_, w)| w.used).map(|(i, _)| i);
                        if let Some(i) = oldest.filter(|_| self.list.len() >= MOST) {
                            self.list.swap_remove(i);
                        }
                        self.list.push(window);
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
    fn windows_are_forgotten() {
        let (mut windows, mut map) = (Windows::default(), vec![0; 64]);
        take(&mut windows, &mut map, 0, 1, Some(1));
        for _ in 0..FORGOTTEN {
            let got = take(&mut windows, &mut map, 100, 1, None);
            bitmap::clear_range(&mut map, got.start, got.len());
        }
        assert_eq!(take(&mut windows, &mut map, 1, 4, None), 1..5);
        for ino in 0..1000 {
            let got = take(&mut windows, &mut map, 0, 1, Some(ino));
            bitmap::clear_range(&mut map, got.start, got.len());
        }
        assert_eq!(windows.list.len(), MOST);
    }
}
