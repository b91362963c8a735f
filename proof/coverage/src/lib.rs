//! Which edges of the product's control flow a run executes, so that the crash laboratory can tell what it has never
//! tried.
//!
//! `cargo xtask lab` and `cargo xtask proof` build the product so that it says of each edge that it is executed: the
//! compiler's SanitizerCoverage calls [`__sanitizer_cov_trace_pc_guard`]. Unless somebody on this thread has called
//! [`listen`], that is one look at a word of the thread's own. Nothing is shared between threads: who explores on
//! several adds up what each has heard. Elsewhere there are no edges, and nothing is heard.
//!
//! Source: LLVM, SanitizerCoverage, "Tracing PCs with guards" and "PC-Table".
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Edges there are, numbered from 1 on.
static EDGES: AtomicU32 = AtomicU32::new(0);

/// Where the table of addresses begins, and how many words it has.
static TABLE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Each object file of a program calls this when it is loaded, with the guards of all of them.
///
/// # Safety
/// The guards lie between the two addresses for as long as the program runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_pc_guard_init(mut guard: *mut u32, end: *mut u32) {
    // SAFETY: the caller's promise.
    if guard >= end || unsafe { *guard } > 0 {
        return;
    }
    while guard < end {
        let edge = EDGES.fetch_add(1, Relaxed) + 1;
        // SAFETY: the caller's promise; nothing is executed yet that reads it.
        unsafe {
            *guard = edge;
            guard = guard.add(1);
        }
    }
}

/// As [`__sanitizer_cov_trace_pc_guard_init`], with two words for each edge: where it is, and whether a function begins
/// there.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_cov_pcs_init(start: *const usize, end: *const usize) {
    TABLE[1].store((end as usize - start as usize) / size_of::<usize>(), Relaxed);
    TABLE[0].store(start as usize, Relaxed);
}

/// An edge is executed.
///
/// # Safety
/// `guard` is one of those that were given a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_pc_guard(guard: *const u32) {
    let Ok((counts, len)) = COUNTS.try_with(Cell::get) else { return };
    // SAFETY: the caller's promise.
    let edge = unsafe { *guard };
    if (edge as usize) < len {
        // SAFETY: who listens on this thread has so many counts, and takes them away from here before they end.
        let times = unsafe { &*counts.add(edge as usize) };
        times.set(times.get().wrapping_add(1));
        if times.get().is_power_of_two() {
            executed(edge, times.get());
        }
    }
}

/// One time that an edge was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which.
    pub edge: u32,
    /// When: after how many events.
    pub at: u32,
}

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The first, second, fourth, eighth … time of each edge, in order; none if who listened only counts.
    pub hits: Vec<Hit>,
    /// The edges that were executed, and how often.
    pub counts: Vec<(u32, u32)>,
}

/// Nothing was heard.
pub static NOTHING: Heard = Heard { hits: Vec::new(), counts: Vec::new() };

#[derive(Default)]
struct Ear {
    /// Keeps hits, and not only how many there were.
    keeps: bool,
    /// Events so far.
    events: u32,
    hits: Vec<Hit>,
    /// Edges that were executed, and how often each of all was.
    touched: Vec<u32>,
    counts: Vec<Cell<u32>>,
}

impl Ear {
    fn hear(&mut self, edge: u32, times: u32) {
        if times == 1 {
            self.touched.push(edge);
        }
        if self.keeps {
            self.hits.push(Hit { edge, at: self.events });
        }
    }

    fn take(&mut self) -> Heard {
        self.events = 0;
        let counts = &self.counts;
        let told = self.touched.drain(..).map(|edge| (edge, counts[edge as usize].take())).collect();
        Heard { hits: std::mem::take(&mut self.hits), counts: told }
    }
}

impl Drop for Ear {
    /// Ears are kept until their thread ends. Of what is executed after that nothing is counted.
    fn drop(&mut self) {
        let _ = COUNTS.try_with(|counts| counts.set(NOBODY));
    }
}

/// Where nobody hears.
const NOBODY: (*const Cell<u32>, usize) = (std::ptr::null(), 0);

thread_local! {
    /// The counts of who hears, and how many; none where nobody does.
    static COUNTS: Cell<(*const Cell<u32>, usize)> = const { Cell::new(NOBODY) };
    /// The last one hears.
    static EARS: RefCell<Vec<Ear>> = const { RefCell::new(Vec::new()) };
    /// Those that are in no use, all of whose counts are zero.
    static SPARE: RefCell<Vec<Ear>> = const { RefCell::new(Vec::new()) };
}

#[cold]
fn executed(edge: u32, times: u32) {
    with_ear(|ear| ear.hear(edge, times));
}

/// Has the last ear hear.
fn attend() {
    let of = |ear: &Ear| (ear.counts.as_ptr(), ear.counts.len());
    COUNTS.set(EARS.with_borrow(|ears| ears.last().map_or(NOBODY, of)));
}

fn with_ear<T: Default>(f: impl FnOnce(&mut Ear) -> T) -> T {
    EARS.with_borrow_mut(|ears| ears.last_mut().map(f)).unwrap_or_default()
}

/// A medium has recorded an event.
pub fn event() {
    if COUNTS.get().1 > 0 {
        with_ear(|ear| ear.events += 1);
    }
}

/// Listens on this thread until the guard is dropped, or asked what it has heard. With `keeps`, hits are told, and
/// between which events they were; else edges are only counted. Whoever listened before goes on afterwards, and hears
/// nothing of this.
pub fn listen(keeps: bool) -> Listening {
    let mut ear = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    ear.keeps = keeps;
    ear.counts.resize(edges() + 1, Cell::new(0));
    EARS.with_borrow_mut(|ears| ears.push(ear));
    attend();
    Listening { here: PhantomData }
}

/// See [`listen`].
#[derive(Debug)]
#[must_use = "nobody listens when this is dropped"]
pub struct Listening {
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Listening {
    /// Forgets the events and hits so far.
    pub fn begin_anew(&self) {
        drop(with_ear(Ear::take));
    }

    /// Ends it.
    pub fn finish(self) -> Heard {
        with_ear(Ear::take)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let ear = EARS.with_borrow_mut(Vec::pop);
        attend();
        if let Some(mut ear) = ear {
            drop(ear.take());
            SPARE.with_borrow_mut(|spare| spare.push(ear));
        }
    }
}

/// How many edges there are; zero where the build counts none.
pub fn edges() -> usize {
    EDGES.load(Relaxed) as usize
}

/// A function of the product, with its edges.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Its name, without its path.
    pub name: String,
    /// The file it is in, as in `crates/journal/src/error.rs`; of what is no part of the product, nothing.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// The first of its edges, and the one behind its last.
    pub edges: (u32, u32),
}

/// The functions, by their edges. They are named when this is called for the first time, which takes seconds.
pub fn functions() -> &'static [Function] {
    static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
        let entries = entries();
        let ends = entries.iter().skip(1).map(|(edge, _)| *edge).chain([edges() as u32 + 1]);
        entries.iter().zip(ends).map(|((from, pc), to)| Function { edges: (*from, to), ..at(*pc) }).collect()
    });
    &FUNCTIONS
}

/// The file and the line of each edge, in the order of edges, that of the first at 0; of what is inlined, where it
/// was written. `None` of what is no part of the product. They are named when this is called for the first time,
/// which takes seconds.
pub fn lines() -> &'static [Option<(String, u32)>] {
    static LINES: LazyLock<Vec<Option<(String, u32)>>> = LazyLock::new(|| {
        table()
            .chunks_exact(2)
            .map(|pair| {
                let mut found = None;
                backtrace::resolve((pair[0] + 1) as *mut _, |symbol| {
                    let file = symbol.filename().and_then(|path| path.to_str()?.split_once(COPY));
                    found = found.take().or_else(|| Some((file?.1.to_owned(), symbol.lineno()?)));
                });
                found
            })
            .collect()
    });
    &LINES
}

/// The compiler's table: of each edge its address, and whether a function begins there.
fn table() -> &'static [usize] {
    let [start, words] = TABLE.each_ref().map(|word| word.load(Relaxed));
    if start == 0 {
        return &[];
    }
    // SAFETY: the compiler has put so many words there, for as long as the program runs.
    unsafe { std::slice::from_raw_parts(start as *const usize, words) }
}

/// The edges at which a function begins, and their addresses.
fn entries() -> Vec<(u32, usize)> {
    let pairs = table().chunks_exact(2).zip(1..);
    pairs.filter(|(pair, _)| pair[1] & 1 == 1).map(|(pair, edge)| (edge, pair[0])).collect()
}

/// Where the copy of the source is.
const COPY: &str = "/proof/tree/";

/// The function at this address, and not what is inlined there.
fn at(pc: usize) -> Function {
    let mut found = Function::default();
    // As a return address, it is taken for one behind what is meant.
    backtrace::resolve((pc + 1) as *mut _, |symbol| {
        let file = symbol.filename().and_then(|path| path.to_str()?.split_once(COPY));
        found = Function {
            name: symbol.name().map(|name| format!("{name:#}")).unwrap_or_default(),
            file: file.map(|(_, file)| file.to_owned()).unwrap_or_default(),
            line: symbol.lineno().unwrap_or_default(),
            edges: (0, 0),
        };
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the compiler makes them: three edges in two functions.
    static GUARDS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

    fn pass(edge: usize) {
        // SAFETY: it is a guard.
        unsafe { __sanitizer_cov_trace_pc_guard(GUARDS[edge].as_ptr()) }
    }

    #[test]
    fn edges_are_heard_by_the_last_who_listens_and_by_nobody_else() {
        let range = GUARDS.as_ptr_range();
        for _ in 0..2 {
            // SAFETY: these are guards, and stay.
            unsafe { __sanitizer_cov_trace_pc_guard_init(range.start as *mut u32, range.end as *mut u32) };
        }
        let numbers = GUARDS.each_ref().map(|guard| guard.load(Relaxed));
        assert_eq!((numbers, edges()), ([1, 2, 3], 3));
        pass(0);
        let outer = listen(false);
        pass(0);
        let inner = listen(true);
        pass(0);
        event();
        inner.begin_anew();
        (0..3).for_each(|_| event());
        pass(1);
        (0..2).for_each(|_| event());
        (0..3).for_each(|_| pass(0));
        let heard = inner.finish();
        let hit = |edge, at| Hit { edge, at };
        assert_eq!(heard.hits, [hit(2, 3), hit(1, 5), hit(1, 5)]);
        assert_eq!(heard.counts, [(2, 1), (1, 3)]);
        pass(2);
        assert_eq!(outer.finish(), Heard { hits: vec![], counts: vec![(1, 1), (3, 1)] });
        let after = listen(true);
        assert_eq!(after.finish(), NOTHING);
    }
}
