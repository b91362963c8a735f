//! On whose behalf a thread works: decides who may take the reserved blocks.
//!
//! Calls that make inodes say whose they are. All other calls may need blocks too (a write, a directory that grows for a
//! link), and whether the reserve is open to them is a matter of who asked, as of `current` in the kernel: it belongs to the
//! thread that serves a request, and not to each call in it.

use crate::alloc::Need;
use crate::dir::init;
use crate::{Caller, Volume};
use std::cell::Cell;

thread_local! {
    static NEED: Cell<Need> = const { Cell::new(Need::Ordinary) };
}

/// Puts back what was before, also when the work panics.
struct Restore(Need);

impl Drop for Restore {
    fn drop(&mut self) {
        NEED.set(self.0);
    }
}

impl Volume {
    /// Does `work`, all of whose calls on this thread are made by `caller`: root, and the user and the group that the image
    /// names, may take blocks that are kept back from others. Without this, calls are nobody's.
    pub fn on_behalf_of<T>(&self, caller: Caller, work: impl FnOnce() -> T) -> T {
        let _restore = Restore(NEED.replace(init::need(self, caller)));
        work()
    }
}

/// Free blocks that whoever this thread works for may take.
pub(crate) fn available(vol: &Volume) -> u64 {
    let statfs = vol.statfs();
    if of_thread(Need::Ordinary) == Need::Privileged { statfs.free } else { statfs.available }
}

/// What an operation's need comes to, by whom this thread works for.
pub(crate) fn of_thread(need: Need) -> Need {
    if need == Need::Ordinary { NEED.get() } else { need }
}
