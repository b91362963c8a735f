//! Signals that ask the program to end.

use crate::LaboratoryError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What has come so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    asked: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on. For what leaves nothing behind (`second_ends`) the second one
    /// ends the program at once.
    pub(crate) fn catch(second_ends: bool) -> Result<Self, LaboratoryError> {
        let signals = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let failed = |e| LaboratoryError(format!("signal {signal}: {e}"));
            let asked = || Arc::clone(&signals.asked);
            // Handlers run in this order.
            if second_ends {
                flag::register_conditional_shutdown(signal, 128 + signal, asked()).map_err(failed)?;
            }
            flag::register_usize(signal, Arc::clone(&signals.which), signal as usize).map_err(failed)?;
            flag::register(signal, asked()).map_err(failed)?;
        }
        Ok(signals)
    }

    /// Whether one came.
    pub(crate) fn asked(&self) -> &AtomicBool {
        &self.asked
    }

    /// The exit code of a program that one has ended.
    pub(crate) fn code(&self) -> Option<u8> {
        let signal = self.which.load(Relaxed);
        self.asked.load(Relaxed).then_some(128 + signal as u8)
    }
}
