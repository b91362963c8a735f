//! Which rule a thread breaks: what the patches beside this ask.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// What the environment names.
static TOLD: OnceLock<Option<&'static str>> = OnceLock::new();

thread_local! {
    static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Whether this thread is to break this rule.
pub fn is(name: &str) -> bool {
    current() == Some(name)
}

/// The rule that this thread breaks: to be handed on to threads that work for it.
pub fn current() -> Option<&'static str> {
    let told = || std::env::var("ONDOL_PLANTED").ok().map(|name| &*name.leak());
    PLANTED.get().or_else(|| *TOLD.get_or_init(told))
}

/// Breaks a rule (or none) on this thread until the guard is dropped, which brings back what was before.
pub fn set(name: Option<&'static str>) -> Guard {
    Guard { before: PLANTED.replace(name), here: PhantomData }
}

/// See [`set`].
#[derive(Debug)]
#[must_use = "the rule holds again when the guard is dropped"]
pub struct Guard {
    before: Option<&'static str>,
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        PLANTED.set(self.before);
    }
}
