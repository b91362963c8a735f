//! The lock-free core: who has which lines, what is complete, and whose turn it is to commit.
//!
//! All of it is in DRAM, and nobody needs it after a crash. Each line has a word that the first line of a claim uses:
//! state, length, and the lap that it belongs to, so that what is left of a lap ago says nothing. One committer at a
//! time walks what is new; the next one takes its turn meanwhile.

use crate::atomics::{AtomicBool, AtomicU64, Ordering, pause};
use Ordering::{AcqRel, Acquire, Release};

/// A reservation is voided so often; then commits wait for it.
pub(crate) const VOIDS: u64 = 2;
/// Ranges that one commit can pass over.
pub(crate) const GAPS: usize = 2;
/// Lines that a claim can have: as many as its word can say.
pub(crate) const CLAIM_LINES: u64 = (1 << 20) - 1;

/// Somebody takes its place as the next committer.
const TURN: u64 = u64::MAX;

const STATE: u64 = 7;
const VOIDED_AT: u32 = 3;
const LINES_AT: u32 = 5;
const LAP_AT: u32 = 25;
const LAP: u64 = (1 << (64 - LAP_AT)) - 1;

const RESERVED: u64 = 1;
const COMPLETE: u64 = 2;
const VOID: u64 = 3;
const COMMIT: u64 = 4;
const GIVEN_UP: u64 = 5;

/// Its own cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Debug)]
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    /// The position that the next claim gets.
    head: Padded<AtomicU64>,
    /// Position of the newest commit that somebody has begun, or [`TURN`].
    begun: Padded<AtomicU64>,
    /// All positions below are committed and durable.
    durable: Padded<AtomicU64>,
    /// Number of the newest durable commit. Only whoever commits next relies on it.
    number: AtomicU64,
    /// Nothing becomes durable any more.
    failed: AtomicBool,
}

/// Lines of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) position: u64,
    pub(crate) lines: u64,
    /// How often it was voided.
    pub(crate) voided: u64,
}

/// The caller is to commit: what lies between two commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The commit before, which is durable.
    after: u64,
    /// Its own.
    at: u64,
}

/// What a commit commits: everything from `from` to its own line at `at` but the gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) number: u64,
    pub(crate) from: u64,
    pub(crate) at: u64,
    pub(crate) records: u64,
    /// Positions and lengths of what was voided.
    pub(crate) gaps: Vec<(u64, u64)>,
}

/// What a word says of the claim that begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Nobody has said yet.
    Unclaimed,
    Reserved {
        lines: u64,
        voided: u64,
    },
    Complete(u64),
    /// Passed over by a commit; its owner may still write there.
    Void(u64),
    /// The same, and its owner has seen it.
    GivenUp(u64),
    Commit,
}

/// Nothing becomes durable any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

impl Ring {
    /// A ring of so many lines, of which nothing is used, and whose next position and commit are these.
    pub(crate) fn new(lines: u64, next: u64, number: u64) -> Self {
        Self {
            words: (0..lines).map(|_| AtomicU64::new(0)).collect(),
            head: Padded(AtomicU64::new(next)),
            // The line before the first counts as a commit: positions begin behind it.
            begun: Padded(AtomicU64::new(next - 1)),
            durable: Padded(AtomicU64::new(next)),
            number: AtomicU64::new(number),
            failed: AtomicBool::new(false),
        }
    }

    fn lines(&self) -> u64 {
        self.words.len() as u64
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[(position % self.lines()) as usize]
    }

    fn lap(&self, position: u64) -> u64 {
        (position / self.lines()) & LAP
    }

    fn encode(&self, position: u64, state: u64, lines: u64, voided: u64) -> u64 {
        state | voided << VOIDED_AT | lines << LINES_AT | self.lap(position) << LAP_AT
    }

    fn read(&self, position: u64) -> Word {
        let word = self.word(position).load(Acquire);
        if word & STATE == 0 || word >> LAP_AT != self.lap(position) {
            return Word::Unclaimed;
        }
        let lines = word >> LINES_AT & CLAIM_LINES;
        match word & STATE {
            RESERVED => Word::Reserved { lines, voided: word >> VOIDED_AT & 3 },
            COMPLETE => Word::Complete(lines),
            VOID => Word::Void(lines),
            GIVEN_UP => Word::GivenUp(lines),
            _ => Word::Commit,
        }
    }

    /// Takes the next lines, of which there are enough: they were promised.
    pub(crate) fn claim(&self, lines: u64, voided: u64) -> Claim {
        let position = self.head.0.fetch_add(lines, AcqRel);
        self.word(position).store(self.encode(position, RESERVED, lines, voided), Release);
        Claim { position, lines, voided }
    }

    /// The record is durable, says the caller. False: it was voided before that, and is not there. The caller writes
    /// nothing there any more.
    pub(crate) fn complete(&self, claim: &Claim) -> bool {
        let Claim { position, lines, voided } = *claim;
        let (old, new) =
            (self.encode(position, RESERVED, lines, voided), self.encode(position, COMPLETE, lines, voided));
        let is_complete = self.word(position).compare_exchange(old, new, AcqRel, Acquire).is_ok();
        if !is_complete {
            self.word(position).store(self.encode(position, GIVEN_UP, lines, voided), Release);
        }
        is_complete
    }

    fn void(&self, position: u64, lines: u64, voided: u64) -> bool {
        let (old, new) = (self.encode(position, RESERVED, lines, voided), self.encode(position, VOID, lines, voided));
        self.word(position).compare_exchange(old, new, AcqRel, Acquire).is_ok()
    }

    /// Waits until the complete record, or the commit, at `through` is durable, or it is the caller's turn to make it
    /// so. While one commits the others wait, so that the next one commits for all of them.
    pub(crate) fn turn(&self, through: u64) -> Result<Option<Turn>, Failed> {
        let mut waited = 0;
        loop {
            if self.durable.0.load(Acquire) > through {
                return Ok(None);
            }
            if self.failed.load(Acquire) {
                return Err(Failed);
            }
            let after = self.begun.0.load(Acquire);
            // Behind `through` it would be a commit of nothing, whose line nobody has paid for.
            let is_free = after < through && self.durable.0.load(Acquire) > after;
            if is_free && self.begun.0.compare_exchange(after, TURN, AcqRel, Acquire).is_ok() {
                let at = self.head.0.fetch_add(1, AcqRel);
                self.word(at).store(self.encode(at, COMMIT, 1, 0), Release);
                self.begun.0.store(at, Release);
                return Ok(Some(Turn { after, at }));
            }
            pause(waited);
            waited += 1;
        }
    }

    /// Waits until everything between the two commits is complete or void, and voids what is not complete after
    /// `patience` looks.
    pub(crate) fn gather(&self, turn: Turn, patience: u32) -> Result<Span, Failed> {
        let Turn { after, at } = turn;
        let number = self.number.load(Acquire) + 1;
        let mut span = Span { number, from: after + 1, at, records: 0, gaps: Vec::new() };
        let (mut place, mut waited) = (after + 1, 0);
        while place < at {
            match self.read(place) {
                Word::Complete(lines) => {
                    span.records += 1;
                    (place, waited) = (place + lines, 0);
                    continue;
                }
                Word::Reserved { lines, voided } if voided < VOIDS && waited >= patience && span.has_room(place) => {
                    if self.void(place, lines, voided) {
                        span.pass_over(place, lines);
                        (place, waited) = (place + lines, 0);
                    }
                    continue;
                }
                // Nobody else voids or commits meanwhile.
                Word::Unclaimed | Word::Reserved { .. } | Word::Void(_) | Word::GivenUp(_) | Word::Commit => {}
            }
            if self.failed.load(Acquire) {
                return Err(Failed);
            }
            pause(waited);
            waited = waited.saturating_add(1);
        }
        debug_assert!(span.records > 0, "a commit of nothing");
        Ok(span)
    }

    /// The commit line of the span is durable, says the caller.
    pub(crate) fn committed(&self, span: &Span) {
        self.number.store(span.number, Release);
        self.durable.0.store(span.at + 1, Release);
    }

    /// Nothing becomes durable any more; who waits is told.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    /// Positions below are committed and durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.0.load(Acquire)
    }

    /// The position that the next claim gets.
    pub(crate) fn claimed(&self) -> u64 {
        self.head.0.load(Acquire)
    }

    /// What is to be committed to have everything that is complete now: a record or a commit. `None` when it is
    /// durable.
    pub(crate) fn newest(&self) -> Option<u64> {
        'anew: loop {
            let begun = self.begun.0.load(Acquire);
            let end = self.head.0.load(Acquire);
            let (mut place, mut newest, mut waited) = (begun.wrapping_add(1), None, 0);
            while begun != TURN && place < end {
                match self.read(place) {
                    Word::Complete(lines) => {
                        newest = Some(place);
                        place += lines;
                    }
                    Word::Reserved { lines, .. } | Word::Void(lines) | Word::GivenUp(lines) => place += lines,
                    Word::Commit => place += 1,
                    Word::Unclaimed => {
                        pause(waited);
                        waited += 1;
                    }
                }
                if self.begun.0.load(Acquire) != begun {
                    continue 'anew;
                }
            }
            if begun == TURN {
                pause(waited);
                continue;
            }
            return newest.or((self.durable() <= begun).then_some(begun));
        }
    }

    /// The complete records from `from` on up to the next commit, and its place. All of it is durable, and nobody
    /// writes there any more.
    pub(crate) fn batch(&self, from: u64) -> Option<(Vec<u64>, u64)> {
        let end = self.durable();
        let (mut place, mut records) = (from, Vec::new());
        while place < end {
            match self.read(place) {
                Word::Complete(lines) => {
                    records.push(place);
                    place += lines;
                }
                Word::GivenUp(lines) => place += lines,
                Word::Commit => return Some((records, place)),
                Word::Unclaimed | Word::Reserved { .. } | Word::Void(_) => return None,
            }
        }
        None
    }
}

impl Span {
    fn has_room(&self, place: u64) -> bool {
        self.gaps.len() < GAPS || self.gaps.last().is_some_and(|(at, lines)| at + lines == place)
    }

    fn pass_over(&mut self, place: u64, lines: u64) {
        match self.gaps.last_mut() {
            Some((at, len)) if *at + *len == place => *len += lines,
            _ => self.gaps.push((place, lines)),
        }
    }
}
