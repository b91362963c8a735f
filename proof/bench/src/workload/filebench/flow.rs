//! Flow operations: one thread's loop over them.

use super::Ready;
use crate::fs::{Append, Durable, File};
use crate::measure::Meter;
use crate::rng::Rng;
use crate::workload::Worker;
use std::io;

/// One flow operation. Those that need an open file take the one that was opened last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// `deletefile`
    Delete,
    /// `createfile`
    Create,
    /// `writewholefile`
    WriteWhole,
    /// `appendfilerand`
    Append,
    /// `fsync`
    Fsync,
    /// `openfile`
    Open,
    /// `readwholefile`
    ReadWhole,
    /// `closefile`
    Close,
    /// `statfile`
    Stat,
}

use Flow::{Close, Create, Delete, Fsync, Open, ReadWhole, Stat, WriteWhole};

pub(super) const VARMAIL: &[Flow] =
    &[Delete, Create, Flow::Append, Fsync, Close, Open, ReadWhole, Flow::Append, Fsync, Close, Open, ReadWhole, Close];

pub(super) const FILESERVER: &[Flow] =
    &[Create, WriteWhole, Close, Open, Flow::Append, Close, Open, ReadWhole, Close, Delete, Stat];

pub(super) const WEBPROXY: &[Flow] = &[
    Delete,
    Create,
    Flow::Append,
    Close,
    Open,
    ReadWhole,
    Close,
    Open,
    ReadWhole,
    Close,
    Open,
    ReadWhole,
    Close,
    Open,
    ReadWhole,
    Close,
    Open,
    ReadWhole,
    Close,
];

pub(super) fn name(number: u32) -> String {
    format!("{number:08}")
}

/// A file that a thread has open.
struct Opened {
    number: u32,
    file: Box<dyn File>,
}

/// One thread.
pub(super) struct Hand<'a> {
    ready: &'a Ready,
    rng: Rng,
    buf: Vec<u8>,
    open: Option<Opened>,
}

impl<'a> Hand<'a> {
    pub(super) fn new(ready: &'a Ready, rng: Rng) -> Self {
        Self { ready, rng, buf: vec![0; ready.iosize as usize], open: None }
    }
}

impl Worker for Hand<'_> {
    fn step(&mut self, meter: &mut Meter) -> io::Result<()> {
        for flow in self.ready.flows {
            match flow {
                Delete => self.delete(meter)?,
                Create => self.create(meter)?,
                WriteWhole => self.write_whole(meter)?,
                Flow::Append => self.append(meter)?,
                Fsync => {
                    let file = &mut opened(&mut self.open)?.file;
                    meter.time(|meter| meter.fsync(file.as_mut(), Some(Durable::All)))?;
                }
                Open => self.open(meter)?,
                ReadWhole => self.read_whole(meter)?,
                Close => {
                    let Opened { number, file } = self.open.take().ok_or_else(none_open)?;
                    meter.time(|_| file.close())?;
                    self.ready.set.closed(number);
                }
                Stat => self.stat(meter)?,
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Hand<'_> {
    fn delete(&self, meter: &mut Meter) -> io::Result<()> {
        let Ready { tree, set, .. } = self.ready;
        let number = set.pick_existing().ok_or_else(exhausted)?;
        if set.is_open(number) {
            set.left(number);
            return Ok(());
        }
        meter.time(|_| tree.of(number)?.unlink(&name(number)))?;
        set.deleted(number);
        Ok(())
    }

    fn create(&mut self, meter: &mut Meter) -> io::Result<()> {
        let Ready { tree, set, .. } = self.ready;
        let number = set.pick_missing().ok_or_else(exhausted)?;
        let file = meter.time(|_| {
            let dir = tree.of(number)?;
            // Filebench looks whether the directory is there before it creates a file.
            dir.stat(".")?;
            dir.create(&name(number), Append::Seek)
        })?;
        set.opened(number);
        self.open = Some(Opened { number, file });
        Ok(())
    }

    fn open(&mut self, meter: &mut Meter) -> io::Result<()> {
        let Ready { tree, set, .. } = self.ready;
        let number = set.pick_existing().ok_or_else(exhausted)?;
        let file = meter.time(|_| tree.of(number)?.open(&name(number), Append::Seek))?;
        set.opened(number);
        self.open = Some(Opened { number, file });
        Ok(())
    }

    fn stat(&self, meter: &mut Meter) -> io::Result<()> {
        let Ready { tree, set, .. } = self.ready;
        let number = set.pick_existing().ok_or_else(exhausted)?;
        let seen = meter.time(|_| tree.of(number)?.stat(&name(number)));
        set.left(number);
        seen.map(drop)
    }

    fn write_whole(&mut self, meter: &mut Meter) -> io::Result<()> {
        let Opened { number, file } = opened(&mut self.open)?;
        let size = self.ready.size(*number);
        meter.time(|_| {
            let mut offset = 0;
            while offset < size {
                let data = self.ready.contents.piece(&mut self.rng, (size - offset).min(self.ready.iosize));
                file.write_at(offset, data)?;
                offset += data.len() as u64;
            }
            Ok(())
        })?;
        meter.user_bytes += size;
        Ok(())
    }

    fn append(&mut self, meter: &mut Meter) -> io::Result<()> {
        let file = &mut opened(&mut self.open)?.file;
        let len = self.rng.below(self.ready.append);
        let data = self.ready.contents.piece(&mut self.rng, len);
        meter.time(|_| if data.is_empty() { Ok(()) } else { file.append(data) })?;
        meter.user_bytes += len;
        Ok(())
    }

    fn read_whole(&mut self, meter: &mut Meter) -> io::Result<()> {
        let file = &mut opened(&mut self.open)?.file;
        meter.time(|_| {
            let mut offset = 0;
            loop {
                match file.read_at(offset, &mut self.buf)? {
                    0 => return Ok(()),
                    len => offset += len as u64,
                }
            }
        })
    }
}

fn opened(open: &mut Option<Opened>) -> io::Result<&mut Opened> {
    open.as_mut().ok_or_else(none_open)
}

fn none_open() -> io::Error {
    io::Error::other("the flow has no open file")
}

fn exhausted() -> io::Error {
    io::Error::other("the set has no file left to pick: raise --param files=")
}
