//! Windows: ranges of a medium, in any order, at addresses that lie in a row.
//!
//! ```text
//!   windows:  page 0   1   2   3   4   5              VADDR + n·4096
//!                  │   │   │   └───┼───┼──▶ zeros
//!   medium:   …  a │ … b │ … … … a+1 │   └▶ hidden: not read through here
//! ```
//!
//! A processor's page table does the look-up that software does otherwise (papers/1). Pages are *shown* by mapping them
//! over what was there; neighbours on the medium that are neighbours here take one call and one mapping. The kernel
//! limits a process's mappings: what goes beyond is hidden, and that is no error.
//!
//! Reading copies words out; nobody gets a reference to bytes that others store to. What is shown changes only while
//! [`Windows::close`] keeps all readers out, so no reader meets a mapping on its way, and none sees a page after it was
//! taken away.

use crate::gate::{Closed, Gate};
use crate::stretch::Stretch;
use crate::{MediumKind, Nvm, NvmError, PAGE, Result, memory};
use ondol_env::sync::Arc;
use std::ops::Range;
// A count of the process, whoever's scheduler runs.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Mappings of all windows of this process.
static IN_USE: AtomicU64 = AtomicU64::new(0);

/// Mappings of a reservation: what is shown, and what is left before and behind it.
const RESERVED: u64 = 3;

/// What windows are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowsSpec {
    /// Pages of 4096 bytes that can be shown.
    pub pages: u64,
    /// A byte of the medium that the first of them is likely to show: large pages of the medium can be large pages
    /// here.
    pub congruent: u64,
    /// Mappings that these windows may take; `None`: what other windows of the process leave of [`most_mappings`].
    pub most: Option<u64>,
    /// Pages are entered in the processor's table when they are shown, not when they are read first.
    pub populate: bool,
}

/// Windows of one medium. Any number of threads read; one at a time changes what is shown.
#[derive(Debug)]
pub struct Windows {
    nvm: Arc<Nvm>,
    gate: Gate<Shown>,
    spec: WindowsSpec,
}

/// What the windows show.
#[derive(Debug)]
struct Shown {
    stretch: Stretch,
    /// For each page the page of the medium that is mapped there plus one; zero for zeros.
    mapped: Vec<u64>,
    /// A bit for each page that may be read.
    open: Vec<u64>,
    /// Pages that may be read.
    shown: u64,
    /// Mappings that this takes.
    mappings: u64,
    /// And may take, where that is said.
    most: Option<u64>,
    /// Calls that have changed mappings.
    calls: u64,
}

/// Windows that nobody reads through: what they show can be changed.
pub struct ClosedWindows<'w> {
    windows: &'w Windows,
    shown: Closed<'w, Shown>,
}

/// How windows are used now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowsStats {
    /// Pages that are shown.
    pub shown: u64,
    /// Mappings that these windows take of those that a process can have.
    pub mappings: u64,
    /// Calls to the kernel that changed mappings.
    pub calls: u64,
}

/// Mappings that windows of a process take at most: half of what the kernel lets a process have.
pub fn most_mappings() -> u64 {
    static MOST: OnceLock<u64> = OnceLock::new();
    *MOST.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(65_530) / 2
    })
}

/// Mappings that something else than windows takes of those of the process.
#[derive(Debug)]
pub(crate) struct Mappings(u64);

impl Mappings {
    /// So many, and those of a reservation. `None`: all windows and others would have more than they may.
    pub(crate) fn take(count: u64) -> Option<Self> {
        let count = count + RESERVED;
        let more = |now: u64| Some(now + count).filter(|all| *all <= most_mappings());
        IN_USE.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self(count))
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        IN_USE.fetch_sub(self.0, Relaxed);
    }
}

impl Windows {
    /// Reserves addresses. Nothing is shown yet.
    ///
    /// # Errors
    /// `NoWindows`: the medium has no file that can be mapped again, the system's pages have another size, or it has no
    /// addresses left.
    pub fn reserve(nvm: &Arc<Nvm>, spec: WindowsSpec) -> Result<Self> {
        let no = |what: String| NvmError::NoWindows { name: nvm.name().into(), what };
        if nvm.file().is_none() {
            let what = match nvm.kind() {
                MediumKind::Memory => {
                    "it is this process's own view of frozen memory, which no file holds: `Nvm::from_bytes` makes one \
                     that can be mapped again"
                }
                _ => "it is shared with other processes, and no descriptor is open",
            };
            return Err(no(what.into()));
        }
        if rustix::param::page_size() as u64 != PAGE {
            return Err(no(format!("pages of this system have {} bytes", rustix::param::page_size())));
        }
        let len = spec.pages.max(1).checked_mul(PAGE).and_then(|len| usize::try_from(len).ok());
        let stretch = len.ok_or(rustix::io::Errno::NOMEM).and_then(|len| Stretch::reserve(len, spec.congruent));
        let stretch =
            stretch.map_err(|e| no(format!("{} pages of addresses: {}", spec.pages, std::io::Error::from(e))))?;
        IN_USE.fetch_add(RESERVED, Relaxed);
        let pages = spec.pages as usize;
        let (mapped, open) = (vec![0; pages], vec![0; pages.div_ceil(64)]);
        let shown = Shown { stretch, mapped, open, shown: 0, mappings: RESERVED, most: spec.most, calls: 0 };
        Ok(Self { nvm: nvm.clone(), gate: Gate::new(shown), spec })
    }

    /// Pages that can be shown.
    pub fn pages(&self) -> u64 {
        self.spec.pages
    }

    /// Reads `buf.len()` bytes at `offset` of the windows, by words, as [`Nvm::read`]. False: some of it is hidden, the
    /// windows are being changed, or the medium has lost lines; nothing was read, and it is to be read elsewhere.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<bool> {
        let len = buf.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= self.pages() * PAGE);
        let Some(end) = end else {
            let (name, size) = (self.nvm.name().into(), self.pages() * PAGE);
            return Err(NvmError::OutOfRange { op: "read through windows", name, offset, len, size });
        };
        {
            let Some(shown) = self.gate.enter() else { return Ok(false) };
            if self.nvm.poison().any() || !shown.is_open(offset / PAGE..end.div_ceil(PAGE)) {
                return Ok(false);
            }
            memory::read(shown.stretch.words(), offset as usize, buf);
        }
        self.nvm.was_read(len);
        Ok(true)
    }

    /// Keeps readers out, waits for those that are inside, and for whoever else has closed it. A thread that has closed
    /// it must not close it again.
    pub fn close(&self) -> ClosedWindows<'_> {
        ClosedWindows { windows: self, shown: self.gate.close() }
    }

    /// How they are used now. Closes them for this.
    pub fn stats(&self) -> WindowsStats {
        let closed = self.close();
        let Shown { shown, mappings, calls, .. } = *closed.shown;
        WindowsStats { shown, mappings, calls }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        IN_USE.fetch_sub(self.gate.close().mappings, Relaxed);
    }
}

impl ClosedWindows<'_> {
    /// Hides pages: nobody reads them through here. What is mapped stays, so that showing the same again is free.
    ///
    /// # Panics
    /// There are no such pages.
    pub fn hide(&mut self, pages: Range<u64>) {
        pages.for_each(|page| self.shown.set(page, false));
    }

    /// Shows bytes of the medium from `offset` on, a multiple of 4096, in `pages`. False: it would take too many
    /// mappings, and they are hidden; or the kernel refuses, and everything is hidden, for room.
    ///
    /// # Errors
    /// `OutOfRange`, `Misaligned`: nothing was changed.
    ///
    /// # Panics
    /// There are no such pages.
    pub fn show(&mut self, pages: Range<u64>, offset: u64) -> Result<bool> {
        let nvm = &self.windows.nvm;
        nvm.mapped.check("map", offset, (pages.end - pages.start) * PAGE)?;
        if !offset.is_multiple_of(PAGE) {
            return Err(NvmError::Misaligned { name: nvm.name().into(), offset });
        }
        let first = offset / PAGE + 1;
        Ok(self.change(&pages, |n| first + n))
    }

    /// Shows zeros in `pages`. False: as [`ClosedWindows::show`].
    ///
    /// # Panics
    /// There are no such pages.
    pub fn show_zeros(&mut self, pages: Range<u64>) -> bool {
        self.change(&pages, |_| 0)
    }

    fn change(&mut self, pages: &Range<u64>, new: impl Fn(u64) -> u64) -> bool {
        let Range { start, end } = *pages;
        let shown = &mut *self.shown;
        let is_there = (start..end).all(|page| shown.mapped[page as usize] == new(page - start));
        let is_shown = is_there || shown.remap(self.windows, pages, &new);
        (start..end).for_each(|page| shown.set(page, is_shown));
        is_shown
    }
}

impl Shown {
    fn is_open(&self, pages: Range<u64>) -> bool {
        !self.stretch.is_lost() && pages.into_iter().all(|page| self.open[page as usize / 64] >> (page % 64) & 1 == 1)
    }

    fn set(&mut self, page: u64, open: bool) {
        let (word, bit) = (&mut self.open[page as usize / 64], 1 << (page % 64));
        let was = *word & bit != 0;
        *word = if open { *word | bit } else { *word & !bit };
        self.shown = self.shown + u64::from(open && !was) - u64::from(!open && was);
    }

    /// Changes the mapping of `pages`, if there may be as many mappings as that takes.
    fn remap(&mut self, windows: &Windows, pages: &Range<u64>, new: impl Fn(u64) -> u64) -> bool {
        let old: Vec<u64> = self.mapped[pages.start as usize..pages.end as usize].to_vec();
        let before = self.bounds(pages);
        self.set_mapped(pages, &new);
        let mappings = self.mappings + self.bounds(pages) - before;
        let others = IN_USE.load(Relaxed).saturating_sub(self.mappings);
        let most = self.most.unwrap_or_else(|| most_mappings().saturating_sub(others));
        if mappings > self.mappings && mappings > most {
            self.set_mapped(pages, |n| old[n as usize]);
            return false;
        }
        let (at, len) = ((pages.start * PAGE) as usize, ((pages.end - pages.start) * PAGE) as usize);
        self.calls += 1;
        let mapped = match (new(0).checked_sub(1), windows.nvm.file()) {
            (Some(page), Some(file)) => self.stretch.map(at, len, file, page * PAGE, windows.spec.populate),
            _ => self.stretch.zero(at, len),
        };
        if mapped.is_err() {
            self.give_up(windows.spec.congruent);
        }
        let now = if mapped.is_ok() { mappings } else { RESERVED };
        IN_USE.fetch_add(now.wrapping_sub(self.mappings), Relaxed);
        self.mappings = now;
        mapped.is_ok()
    }

    /// The kernel has refused a mapping: others take more than half of what the process may have. These begin anew,
    /// with half of what they had. Nothing can be mended in place: at the limit the kernel refuses even the mapping of
    /// zeros.
    fn give_up(&mut self, congruent: u64) {
        self.stretch.clear(congruent);
        self.mapped.fill(0);
        self.open.fill(0);
        self.shown = 0;
        self.most = Some(self.mappings / 2);
    }

    fn set_mapped(&mut self, pages: &Range<u64>, new: impl Fn(u64) -> u64) {
        pages.clone().for_each(|page| self.mapped[page as usize] = new(page - pages.start));
    }

    /// How many mappings begin in `pages` or right behind.
    fn bounds(&self, pages: &Range<u64>) -> u64 {
        let is_bound = |page: &usize| {
            let follows = |(a, b): (&u64, &u64)| if *a == 0 { *b == 0 } else { *b == a + 1 };
            let pair = page.checked_sub(1).and_then(|before| self.mapped.get(before)).zip(self.mapped.get(*page));
            pair.is_some_and(|pair| !follows(pair))
        };
        (pages.start as usize..=pages.end as usize).filter(is_bound).count() as u64
    }
}
