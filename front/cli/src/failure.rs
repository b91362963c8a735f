//! How commands fail: one line and an exit code.

use crate::advice;
use ondol_fuse::{ClientError, MountError};
use std::process::ExitCode;

/// All but mount, umount and check: the command line makes no sense.
pub(crate) const USAGE: u8 = 2;
/// mkfs, sync, info, recover and others: it did not work.
pub(crate) const FAILED: u8 = 1;
/// mount(8): the command line makes no sense.
pub(crate) const MOUNT_USAGE: u8 = 1;
/// mount(8): the system did not do its part (no process, no pipe).
pub(crate) const SYSTEM: u8 = 2;
/// mount(8): a signal came before the volume was mounted.
pub(crate) const INTERRUPTED: u8 = 8;
/// mount(8): mounting or unmounting failed.
pub(crate) const MOUNT: u8 = 32;
/// fsck(8): errors were corrected.
pub(crate) const CHECK_CORRECTED: u8 = 1;
/// fsck(8): errors were left.
pub(crate) const CHECK_LEFT: u8 = 4;
/// fsck(8): the check could not be done.
pub(crate) const CHECK_OPERATION: u8 = 8;
/// fsck(8): the command line makes no sense.
pub(crate) const CHECK_USAGE: u8 = 16;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// One line: what, where, and what to do.
    pub(crate) message: String,
}

/// What a command answers: an exit code, or why it failed.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// What failures are made of.
pub(crate) trait Message {
    /// What is wrong, and what helps.
    fn said(&self) -> String;
}

impl Message for ondol::Error {
    fn said(&self) -> String {
        advice::said(self)
    }
}

impl Message for MountError {
    fn said(&self) -> String {
        match self {
            Self::Close(e) => e.said(),
            e => e.to_string(),
        }
    }
}

/// These have nothing to add.
macro_rules! as_displayed {
    ($($message:ty),* $(,)?) => {
        $(impl Message for $message {
            fn said(&self) -> String {
                self.to_string()
            }
        })*
    };
}

as_displayed!(&str, String, ClientError, ondol::OptionError, std::io::Error, rustix::io::Errno, serde_json::Error,);

impl Failure {
    pub(crate) fn new(code: u8, message: impl Message) -> Self {
        // One line, whatever a helper program wrote.
        Self { code, message: ondol::line(&message.said()) }
    }

    /// For `map_err`.
    pub(crate) fn with<E: Message>(code: u8) -> impl FnOnce(E) -> Self {
        move |e| Self::new(code, e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_words() {
        let said = |text: &str| Failure::new(FAILED, text).message;
        let missing = std::io::Error::from_raw_os_error(2);
        assert_eq!(
            said(&format!("cannot open x: {missing}; try y\n")),
            "cannot open x: No such file or directory; try y"
        );
        assert_eq!(said("first\nsecond"), "first; second");
        assert_eq!(said("a file named (os error x), b"), "a file named (os error x), b");
    }
}
