//! SIGINT and SIGTERM: a flag that every loop looks at, so that the guards can take everything away.

use crate::BenchError;
use crate::error::Context;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Catches the signals that ask a program to end, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Interrupt {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> Result<Self, BenchError> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut registered = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let id = signal_hook::flag::register(signal, Arc::clone(&flag));
            registered.push(id.context(|| format!("catching signal {signal}"))?);
        }
        Ok(Self { flag, registered })
    }

    /// True once a signal came.
    pub(crate) fn came(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// `Interrupted` once a signal came.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.came() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
