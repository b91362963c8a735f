//! `dbench`: the mix of calls that dbench 4 makes with its standard load, drawn at random by its proportions.
//!
//! The load is a recording of an office suite against a file server. Counted over its 458,344 calls (the recording itself is not
//! used): which calls there are and how often, how many find nothing, and how long reads and writes are. Each thread is one
//! of dbench's clients, with a directory of its own: 8 directories, about 146 files at a time. It flushes where the recording
//! flushes, once in 80 calls: an fsync. What is left out: 516 locks, which are the kernel's own affair, and the making and removing of
//! a client's tree, which is not measured. An operation is a call.

use super::{Definition, Footprint, ParamDef, Plan, Prepared, Worker, Workload, nth};
use crate::contents::Contents;
use crate::fs::{Append, Dir, Durable, File, Fs};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::units::MIB;
use std::io;
use std::sync::Arc;

pub(super) const DEFINITION: Definition = Definition {
    name: "dbench",
    about: "a call of dbench's standard load by its proportions: reads, opens, stats, writes, lists, unlinks, renames, fsyncs",
    params: &[
        ParamDef::number("files", "146", "files of a thread at the beginning", 16, 100_000),
        ParamDef::number("size", "1M", "bytes in the largest file", 128 << 10, 64 * MIB),
    ],
    settings: &[],
    threads: 1,
    ops: 100_000,
    most_ops: u64::MAX,
    build: |params| Ok(Box::new(Mix { files: params.number("files").max(1), size: params.number("size") })),
};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// `ReadX`
    Read,
    /// `NTCreateX` of a file that is there.
    Open,
    /// `NTCreateX` of one that is not, and is not made.
    OpenMissing,
    /// `NTCreateX` that makes a file.
    Create,
    /// `Close`
    Close,
    /// `WriteX`
    Write,
    /// `QUERY_PATH_INFORMATION`
    Stat,
    /// The same of a name that is not there.
    StatMissing,
    /// `FIND_FIRST`
    List,
    /// `Unlink`
    Unlink,
    /// `QUERY_FS_INFORMATION`
    Free,
    /// `QUERY_FILE_INFORMATION`
    Size,
    /// `SET_FILE_INFORMATION`
    Touch,
    /// `Flush`
    Flush,
    /// `Rename`
    Rename,
}

/// How often each is in the load. `Close` is as frequent as what opens.
const CALLS: [(Call, u64); 15] = [
    (Call::Read, 124_199),
    (Call::Open, 42_143),
    (Call::OpenMissing, 21_030),
    (Call::Create, 16_057),
    (Call::Close, 58_200),
    (Call::Write, 39_502),
    (Call::Stat, 47_429),
    (Call::StatMissing, 24_385),
    (Call::List, 27_765),
    (Call::Unlink, 16_000),
    (Call::Free, 13_168),
    (Call::Size, 12_585),
    (Call::Touch, 6_454),
    (Call::Flush, 5_553),
    (Call::Rename, 3_355),
];

/// Lengths of reads, in bytes, and how often; the last stands for all others, whose mean it is.
const READS: [(u64, u64); 6] =
    [(4096, 83_172), (61_440, 16_641), (8192, 4_644), (2048, 4_644), (16_384, 1_937), (2_240, 13_161)];
/// The same of writes. One byte behind the end is how the load makes a file longer.
const WRITES: [(u64, u64); 6] =
    [(65_536, 12_658), (4096, 9_942), (1, 7_424), (2048, 1_677), (8192, 1_164), (20_300, 6_637)];

/// Directories of a client.
const DIRS: u64 = 8;
/// Files that a client has open at most.
const MOST_OPEN: usize = 12;
/// Bytes in a file at the beginning, at most.
const FIRST_SIZE: u64 = 128 << 10;

/// One of `choices` by their frequency.
fn draw<T: Copy>(choices: &[(T, u64)], rng: &mut Rng) -> Option<T> {
    let mut left = rng.below(choices.iter().map(|(_, often)| often).sum());
    for &(choice, often) in choices {
        match left.checked_sub(often) {
            Some(rest) => left = rest,
            None => return Some(choice),
        }
    }
    None
}

#[derive(Clone, Copy)]
struct Mix {
    files: u64,
    size: u64,
}

impl Workload for Mix {
    fn footprint(&self, plan: &Plan) -> Footprint {
        // As many files are made as removed; the number wanders, by far less than it is.
        let files = self.files.saturating_mul(4).saturating_mul(plan.threads.into());
        Footprint {
            bytes: files.saturating_mul(self.size),
            files: files.saturating_add(DIRS * u64::from(plan.threads)),
        }
    }

    fn longest(&self) -> u64 {
        64 << 10
    }

    fn prepare(&self, fs: &dyn Fs, plan: &Plan) -> io::Result<Box<dyn Prepared>> {
        let root = fs.root();
        let mut clients = Vec::new();
        for thread in 0..plan.threads {
            let mut rng = Rng::new(plan.seed, u64::from(thread) << 32);
            let top = root.mkdir(&format!("client{thread}"))?;
            let dirs = (0..DIRS).map(|n| top.mkdir(&format!("dir{n}"))).collect::<io::Result<Vec<_>>>()?;
            for n in 0..self.files {
                let mut file = nth(&dirs, (n % DIRS) as usize)?.create(&name(n), Append::Seek)?;
                let len = rng.below(FIRST_SIZE);
                for offset in (0..len).step_by(self.longest() as usize) {
                    file.write_at(offset, plan.contents.piece(&mut rng, (len - offset).min(self.longest())))?;
                }
                file.close()?;
            }
            clients.push(dirs);
        }
        Ok(Box::new(Ready { work: *self, clients, contents: Arc::clone(&plan.contents), seed: plan.seed }))
    }
}

fn name(n: u64) -> String {
    format!("FILE{n:06}.DAT")
}

struct Ready {
    work: Mix,
    /// The directories of each client.
    clients: Vec<Vec<Arc<dyn Dir>>>,
    contents: Arc<Contents>,
    seed: u64,
}

impl Prepared for Ready {
    fn worker(&self, thread: u32) -> io::Result<Box<dyn Worker + '_>> {
        let dirs = nth(&self.clients, thread as usize)?;
        let there = (0..self.work.files).map(|n| Named { dir: n % DIRS, number: n }).collect();
        let rng = Rng::new(self.seed, 1 + u64::from(thread));
        Ok(Box::new(Client {
            ready: self,
            dirs,
            rng,
            there,
            next: self.work.files,
            open: Vec::new(),
            buf: vec![0; 64 << 10],
        }))
    }
}

/// A file by its name.
#[derive(Clone, Copy)]
struct Named {
    dir: u64,
    number: u64,
}

/// A file that a client has open.
struct Opened {
    named: Named,
    file: Box<dyn File>,
    /// Where the next read or write goes.
    at: u64,
}

struct Client<'a> {
    ready: &'a Ready,
    dirs: &'a [Arc<dyn Dir>],
    rng: Rng,
    /// Files that are there and not open.
    there: Vec<Named>,
    next: u64,
    open: Vec<Opened>,
    buf: Vec<u8>,
}

impl Worker for Client<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        let call = draw(&CALLS, &mut self.rng).ok_or_else(|| io::Error::other("no call was drawn"))?;
        let call = self.possible(call);
        meter.time(|meter| self.make(call, meter))
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.open.into_iter().try_for_each(|opened| opened.file.close())
    }
}

impl Client<'_> {
    /// The call itself, or another where it cannot be made: what needs an open file opens one, and who has too many closes one. Each is as
    /// likely as its counterpart, so that proportions stay.
    fn possible(&self, call: Call) -> Call {
        let least = self.ready.work.files / 4;
        match call {
            Call::Read | Call::Write | Call::Size | Call::Flush | Call::Close if self.open.is_empty() => Call::Open,
            Call::Open | Call::Create if self.open.len() >= MOST_OPEN => Call::Close,
            Call::Unlink if (self.there.len() as u64) < least.max(4) => Call::Create,
            Call::Create if self.there.len() as u64 > self.ready.work.files * 2 => Call::Unlink,
            Call::Open | Call::Rename | Call::Stat | Call::Touch if self.there.is_empty() => Call::Create,
            call => call,
        }
    }

    fn make(&mut self, call: Call, meter: &mut Meter) -> io::Result<()> {
        match call {
            Call::Read => self.read(),
            Call::Write => self.write(meter),
            Call::Open => {
                let named = self.take()?;
                let file = self.dir(named)?.open(&name(named.number), Append::Seek)?;
                self.open.push(Opened { named, file, at: 0 });
                Ok(())
            }
            Call::Create => {
                let named = self.new_name();
                let file = self.dir(named)?.create(&name(named.number), Append::Seek)?;
                self.open.push(Opened { named, file, at: 0 });
                Ok(())
            }
            Call::OpenMissing => self.missing(|dir, name| dir.open(name, Append::Seek).map(drop)),
            Call::StatMissing => self.missing(|dir, name| dir.stat(name).map(drop)),
            Call::Close => {
                let which = self.rng.below(self.open.len() as u64) as usize;
                let Opened { named, file, .. } = self.open.swap_remove(which);
                self.there.push(named);
                file.close()
            }
            Call::Stat | Call::Touch => {
                let which = self.rng.below(self.there.len() as u64) as usize;
                let named = *nth(&self.there, which)?;
                let (dir, name) = (self.dir(named)?, name(named.number));
                if call == Call::Touch { dir.touch(&name) } else { dir.stat(&name).map(drop) }
            }
            Call::List => self.any_dir()?.list().map(drop),
            Call::Unlink => {
                let named = self.take()?;
                self.dir(named)?.unlink(&name(named.number))
            }
            Call::Rename => {
                let from = self.take()?;
                let to = Named { dir: from.dir, ..self.new_name() };
                self.there.push(to);
                self.dir(from)?.rename(&name(from.number), &name(to.number))
            }
            Call::Free => self.any_dir()?.free().map(drop),
            Call::Size => self.opened()?.file.size().map(drop),
            Call::Flush => meter.fsync(self.opened()?.file.as_mut(), Durable::All),
        }
    }

    /// Reads on in a file, and from its beginning when it has come to the end.
    fn read(&mut self) -> io::Result<()> {
        let len = draw(&READS, &mut self.rng).unwrap_or(4096) as usize;
        let which = self.rng.below(self.open.len() as u64) as usize;
        let Some(Opened { file, at, .. }) = self.open.get_mut(which) else { return Err(none_open()) };
        let read = file.read_at(*at, self.buf.get_mut(..len).unwrap_or_default())?;
        *at = if read < len { 0 } else { *at + read as u64 };
        Ok(())
    }

    fn write(&mut self, meter: &mut Meter) -> io::Result<()> {
        let len = draw(&WRITES, &mut self.rng).unwrap_or(4096);
        let most = self.ready.work.size;
        let data = self.ready.contents.piece(&mut self.rng, len);
        let Opened { file, at, .. } = self.opened()?;
        if *at + len > most {
            *at = 0;
        }
        file.write_at(*at, data)?;
        *at += len;
        meter.user_bytes += len;
        Ok(())
    }

    /// A call with a name that is not there, which must say so.
    fn missing(&mut self, call: impl FnOnce(&dyn Dir, &str) -> io::Result<()>) -> io::Result<()> {
        let name = format!("NONE{:06}.TMP", self.rng.below(1000));
        match call(self.any_dir()?.as_ref(), &name) {
            Ok(()) => Err(io::Error::other(format!("{name} was found, which nobody has made"))),
            Err(_) => Ok(()),
        }
    }

    fn new_name(&mut self) -> Named {
        self.next += 1;
        Named { dir: self.rng.below(DIRS), number: self.next }
    }

    /// A file that is there and not open; it counts as neither then.
    fn take(&mut self) -> io::Result<Named> {
        if self.there.is_empty() {
            return Err(io::Error::other("the client has no file left"));
        }
        let which = self.rng.below(self.there.len() as u64) as usize;
        Ok(self.there.swap_remove(which))
    }

    fn opened(&mut self) -> io::Result<&mut Opened> {
        let which = self.rng.below(self.open.len() as u64) as usize;
        self.open.get_mut(which).ok_or_else(none_open)
    }

    fn dir(&self, named: Named) -> io::Result<&Arc<dyn Dir>> {
        nth(self.dirs, named.dir as usize)
    }

    fn any_dir(&mut self) -> io::Result<&Arc<dyn Dir>> {
        let which = self.rng.below(DIRS);
        nth(self.dirs, which as usize)
    }
}

fn none_open() -> io::Error {
    io::Error::other("the client has no open file")
}
