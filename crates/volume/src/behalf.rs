//! On whose behalf a thread works: decides who may take the reserved blocks.
//!
//! Calls that make inodes say whose they are. All other calls may need blocks too (a write, a directory that grows for
//! a link), and whether the reserve is open to them is a matter of who asked, as of `current` in the kernel: it belongs
//! to the thread that serves a request, and not to each call in it.

use crate::alloc::Need;
use crate::dir::init;
use crate::{Caller, Volume};
use std::cell::Cell;

/// Who a thread works for.
#[derive(Clone, Copy)]
enum Behalf {
    /// Nobody in particular, or somebody of whom it is known what he may take.
    Known(Need),
    /// Another thread, of whose user one has to ask.
    Thread { thread: u32, user_of: fn(u32) -> Option<Caller> },
}

thread_local! {
    static BEHALF: Cell<Behalf> = const { Cell::new(Behalf::Known(Need::Ordinary)) };
}

/// Puts back what was before, also when the work panics.
struct Restore(Behalf);

impl Drop for Restore {
    fn drop(&mut self) {
        BEHALF.set(self.0);
    }
}

impl Volume {
    /// Does `work`, all of whose calls on this thread are made by `caller`: root, and the user and the group that the
    /// image names, may take blocks that are kept back from others. Without this, calls are nobody's.
    pub fn on_behalf_of<T>(&self, caller: Caller, work: impl FnOnce() -> T) -> T {
        let _restore = Restore(BEHALF.replace(Behalf::Known(init::need(self, caller))));
        work()
    }

    /// As [`Volume::on_behalf_of`], for a thread whose user `user_of` tells, where it matters; `None`: nobody in
    /// particular. Whose new inodes are to be says nothing about him then.
    pub fn on_behalf_of_thread<T>(
        &self,
        thread: u32,
        user_of: fn(u32) -> Option<Caller>,
        work: impl FnOnce() -> T,
    ) -> T {
        let _restore = Restore(BEHALF.replace(Behalf::Thread { thread, user_of }));
        work()
    }
}

/// Free blocks that whoever this thread works for may take.
pub(crate) fn available(vol: &Volume) -> u64 {
    let statfs = vol.statfs();
    let all = statfs.free > statfs.available && of_thread(vol, Need::Ordinary) == Need::Privileged;
    if all { statfs.free } else { statfs.available }
}

/// What an operation's need comes to, by whom this thread works for.
pub(crate) fn of_thread(vol: &Volume, need: Need) -> Need {
    match BEHALF.get() {
        _ if need != Need::Ordinary => need,
        Behalf::Known(known) => known,
        Behalf::Thread { thread, user_of } => user_of(thread).map_or(Need::Ordinary, |user| init::need(vol, user)),
    }
}

/// What it comes to for an operation that makes an inode of `owner`'s.
pub(crate) fn of_owner(vol: &Volume, owner: Caller) -> Need {
    match BEHALF.get() {
        Behalf::Thread { .. } => Need::Ordinary,
        Behalf::Known(_) => init::need(vol, owner),
    }
}
