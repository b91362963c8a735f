//! On whose behalf a thread works: decides who may take the reserved blocks.
//!
//! Calls that make inodes say whose they are. All other calls may need blocks too (a write, a directory that grows for
//! a link), and whether the reserve is open to them is a matter of who asked, as of `current` in the kernel: it belongs
//! to the thread that serves a request, and not to each call in it.

use crate::Caller;
use crate::alloc::Need;
use ondol_format::Superblock;
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

/// Does `work` for somebody whose calls come to `need`.
pub(crate) fn work_for<T>(need: Need, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(BEHALF.replace(Behalf::Known(need)));
    work()
}

/// Does `work` for a thread whose user `user_of` tells, where it matters.
pub(crate) fn work_for_thread<T>(thread: u32, user_of: fn(u32) -> Option<Caller>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(BEHALF.replace(Behalf::Thread { thread, user_of }));
    work()
}

/// Whether somebody may take reserved blocks.
pub(crate) fn need(sb: &Superblock, caller: Caller) -> Need {
    let (user, group) = (u32::from(sb.raw().s_def_resuid.get()), u32::from(sb.raw().s_def_resgid.get()));
    let privileged = caller.uid == 0 || caller.uid == user || (group != 0 && caller.gid == group);
    if privileged { Need::Privileged } else { Need::Ordinary }
}

/// What an operation's need comes to, by whom this thread works for.
pub(crate) fn of_thread(sb: &Superblock, asked: Need) -> Need {
    match BEHALF.get() {
        _ if asked != Need::Ordinary => asked,
        Behalf::Known(known) => known,
        Behalf::Thread { thread, user_of } => user_of(thread).map_or(Need::Ordinary, |user| need(sb, user)),
    }
}

/// What it comes to for an operation that makes an inode of `owner`'s.
pub(crate) fn of_owner(sb: &Superblock, owner: Caller) -> Need {
    match BEHALF.get() {
        Behalf::Thread { .. } => Need::Ordinary,
        Behalf::Known(_) => need(sb, owner),
    }
}
