//! Why a bench could not be run.

use std::fmt::Display;
use std::io;

/// Why a bench could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A name that does not exist or a value that makes no sense; the text names it.
    #[error("{0}")]
    Usage(String),
    /// A program that a target needs failed or is missing.
    #[error("{command}: {what}")]
    Command {
        /// The command line.
        command: String,
        /// Its last words, or why it did not start.
        what: String,
    },
    /// Something failed while making, measuring or removing a target.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and where.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system is not as the target needs it; the text says what to do.
    #[error("{0}")]
    Unfit(String),
    /// SIGINT or SIGTERM came.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    /// True for mistakes in the command line, which have exit codes of their own.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Says what was being done when an I/O error came.
pub(crate) trait Context<T> {
    /// The same result, with `what` in the error.
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T, BenchError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T, BenchError> {
        self.map_err(|e| BenchError::Io { what: what().to_string(), source: e.into() })
    }
}
