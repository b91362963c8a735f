//! Standard output of commands that print much. Whoever does not read to the end does not want the rest; everything
//! else that fails is an error.

use crate::failure::{FAILED, Failure};
use ondol::printable;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};

/// Standard output.
pub(crate) struct Out {
    to: BufWriter<StdoutLock<'static>>,
    /// Somebody looks at each line as it comes.
    at_once: bool,
    state: io::Result<()>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Self { to: BufWriter::new(io::stdout().lock()), at_once: io::stdout().is_terminal(), state: Ok(()) }
    }

    /// Prints a line, in which what cannot be shown is escaped.
    pub(crate) fn line(&mut self, text: &[u8]) {
        self.bytes(printable(text).as_bytes());
        self.bytes(b"\n");
        if self.at_once {
            self.flush();
        }
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.state.is_ok() {
            self.state = self.to.write_all(bytes);
        }
    }

    /// Whether nobody can read any more what is printed.
    pub(crate) fn is_over(&self) -> bool {
        self.state.is_err()
    }

    /// Hands over what was printed so far, so that an error that is told now comes behind it.
    pub(crate) fn flush(&mut self) {
        if self.state.is_ok() {
            self.state = self.to.flush();
        }
    }

    /// Prints the rest.
    ///
    /// # Errors
    /// Something could not be written.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.flush();
        // What could not be written is not tried again when it is dropped.
        drop(self.to.into_parts());
        match self.state {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::new(FAILED, format!("cannot write to standard output: {e}")))
            }
            _ => Ok(()),
        }
    }
}
