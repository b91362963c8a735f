//! Acting with no more rights than another user has.

use crate::{Error, Result};
use ondol_env::sync::thread::Builder;
use ondol_medium::User;
use rustix::fs::{Gid, Uid};
use rustix::io::{self, Errno};
use rustix::process::{getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

/// The group of somebody whom nobody knows.
const NOGROUP: u32 = 65_534;

/// Does `work` with the rights of the user `uid`, whatever this process may do besides: in a thread that has given that
/// up, and ends.
///
/// # Errors
/// The rights cannot be given up.
pub(crate) fn with_those_of<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    if geteuid().as_raw() == uid {
        return Ok(work());
    }
    let refused = |e: io::Errno| {
        let what = format!("cannot act with the rights of the user with number {uid} alone ({e}): become that user");
        Error::state("this program", what)
    };
    let thread = Builder::new().spawn(move || give_up(uid).map(|()| work())).map_err(|_| refused(Errno::AGAIN))?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(refused)
}

/// Gives up in this thread, for good, all rights that the user has not.
fn give_up(uid: u32) -> io::Result<()> {
    let (group, groups) = User::of(uid).map_or((NOGROUP, Vec::new()), |user| (user.group, user.groups()));
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(group));
    set_thread_groups(&groups.into_iter().map(Gid::from_raw).collect::<Vec<_>>())?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    // The kernel has taken them with the change of the user, unless it was told not to.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let now = capabilities(None)?;
    let given_up = (now.effective | now.permitted).is_empty()
        && [getuid(), geteuid()] == [user; 2]
        && [getgid(), getegid()] == [group; 2];
    if given_up { Ok(()) } else { Err(Errno::PERM) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_root_may_do_another_users_thread_may_not() {
        if ondol_skips::skips((!geteuid().is_root()).then_some("needs root")) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("private");
        fs::write(&path, b"root's").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let read = || {
            let path = path.clone();
            move || fs::read(path).is_ok()
        };
        // With a name, and without.
        for uid in [1, 4_000_000] {
            assert!(!with_those_of(uid, read()).unwrap());
        }
        assert!(with_those_of(0, read()).unwrap());
        assert!(read()() && geteuid().is_root());
    }
}
