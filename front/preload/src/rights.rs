//! Calls by which a process changes its user or gives up rights. From then on it has no part in the pool, which may be
//! another user's: what is in the log goes home, and the pool is mapped in this process no more.
//!
//! 1. No call enters the library, and threads inside are waited for, at most three seconds.
//! 2. Files that the process has open are never trusted again: it will write and sync them unseen.
//! 3. Their file systems are synced, and all records there retired: none is older than what the process will sync.
//! 4. Its lanes are for others, and zeros take the place of the mapping.
//! 5. The library is taken out of `LD_PRELOAD`.
//!
//! Where the kernel tells who a process is, that is compared before and after the call; for the others success is
//! enough. Before a seccomp filter all is done beforehand, since the filter may forbid it. A signal handler that came
//! while its thread was inside leaves out 2 and 3: it may not wait for what the thread has.
//!
//! A child of vfork(2) has its parent's memory, and the parent goes on with it: the child's calls are the kernel's, and
//! the pool goes with exec(2).

use crate::raw::{self, Behind, Quiet, system};
use crate::shim;
use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void, gid_t, size_t, uid_t};
use ondol_run_log::{FileKind, Look};
use std::ffi::CStr;
use std::fs::{File, ReadDir};

/// How many groups are compared. With more, every call has changed something.
const GROUPS: usize = 256;

/// Who a thread is for the kernel, and what it may do.
#[derive(PartialEq, Eq)]
struct Rights {
    /// User and group: real, effective, saved, of the file system.
    ids: [u32; 8],
    groups: [gid_t; GROUPS],
    capabilities: [u32; 6],
}

impl Rights {
    /// None if there is too much to compare.
    fn now() -> Option<Self> {
        let mut rights = Self { ids: [0; 8], groups: [gid_t::MAX; GROUPS], capabilities: [0; 6] };
        let at = rights.ids.as_mut_ptr();
        system!(libc::SYS_getresuid, at, at.wrapping_add(1), at.wrapping_add(2));
        system!(libc::SYS_getresgid, at.wrapping_add(3), at.wrapping_add(4), at.wrapping_add(5));
        // An id that there is not changes nothing.
        rights.ids[6] = system!(libc::SYS_setfsuid, u32::MAX) as u32;
        rights.ids[7] = system!(libc::SYS_setfsgid, u32::MAX) as u32;
        // The third version of the call, about this thread.
        let head = [0x2008_0522u32, 0];
        system!(libc::SYS_capget, head.as_ptr(), rights.capabilities.as_mut_ptr());
        let told = system!(libc::SYS_getgroups, GROUPS as c_int, rights.groups.as_mut_ptr());
        (told >= 0).then_some(rights)
    }
}

/// When a call means that rights were given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Where the kernel tells something else afterwards.
    Changed,
    /// Where it succeeds.
    Done,
    /// Before it: behind it not every call may be made.
    Before,
}

/// What is asked for while the process may.
struct Before {
    rights: Option<Rights>,
    systems: Vec<File>,
    files: Option<ReadDir>,
}

impl Before {
    fn now() -> Self {
        // In its own name, nothing is opened to be written to.
        let open = |shim: &shim::Shim| shim.dirs.iter().filter_map(|dir| File::open(dir).ok()).collect();
        let systems = shim::enter().map(|(shim, _inside)| open(shim)).unwrap_or_default();
        Self { rights: Rights::now(), systems, files: std::fs::read_dir("/proc/self/fd").ok() }
    }

    /// Lets go of the pool.
    fn leave(self) {
        let error = raw::errno();
        let quiet = Quiet::new();
        shim::leave(|shim| {
            let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
            let numbers = self.files.into_iter().flatten().flatten().filter_map(|entry| number(entry.file_name()));
            let is_file = |look: &Look| look.kind == FileKind::File && shim.is_on(look);
            let looks = numbers.filter_map(|fd| Look::at(raw::borrow(fd)?).ok()).filter(is_file);
            let is_on = |file: &&File, dev| rustix::fs::fstat(file).is_ok_and(|stat| stat.st_dev == dev);
            let sync = |dev| {
                let system = self.systems.iter().find(|file| is_on(file, dev));
                system.is_some_and(|system| rustix::fs::syncfs(system).is_ok())
            };
            // If the memory fails nothing is found there.
            let _ = shim.client.bring_home(looks, sync);
        });
        // What this process starts does not try.
        crate::exec::forget();
        drop(quiet);
        raw::fail(error);
    }
}

/// Makes a call that may change what this process may do.
fn changing(when: When, real: impl FnOnce() -> c_long) -> c_long {
    if !shim::has_pool() {
        return real();
    }
    let before = Before::now();
    if when == When::Before {
        before.leave();
        return real();
    }
    let answer = real();
    let changed = match when {
        When::Done => answer == 0,
        _ => before.rights.is_none() || before.rights != Rights::now(),
    };
    if changed {
        before.leave();
    }
    answer
}

macro_rules! changing {
    ($($name:ident($($word:ident: $kind:ty),*), $when:ident;)*) => {
        /// libc's functions, which change all threads.
        mod real {
            use super::*;
            $(#[allow(non_upper_case_globals, reason = "named after functions")]
            pub(super) static $name: Behind = {
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("no name"),
                };
                Behind::new(&[NAME])
            };)*
        }

        /// The library is loaded.
        pub(crate) fn begin() {
            $(real::$name.address();)*
        }

        $(/// The function of libc of this name.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($word: $kind),*) -> c_int {
            type Real = unsafe extern "C" fn($($kind),*) -> c_int;
            let real = || match real::$name.address() {
                0 => raw::fail(libc::ENOSYS),
                // SAFETY: libc's function of this name, with the program's arguments for it.
                at => unsafe { std::mem::transmute::<usize, Real>(at)($($word),*) },
            };
            changing(When::$when, || real().into()) as c_int
        })*
    };
}

changing! {
    setuid(user: uid_t), Changed;
    setgid(group: gid_t), Changed;
    seteuid(user: uid_t), Changed;
    setegid(group: gid_t), Changed;
    setreuid(real: uid_t, effective: uid_t), Changed;
    setregid(real: gid_t, effective: gid_t), Changed;
    setresuid(real: uid_t, effective: uid_t, saved: uid_t), Changed;
    setresgid(real: gid_t, effective: gid_t, saved: gid_t), Changed;
    setfsuid(user: uid_t), Changed;
    setfsgid(group: gid_t), Changed;
    setgroups(count: size_t, groups: *const gid_t), Changed;
    initgroups(user: *const c_char, group: gid_t), Changed;
    capset(head: *mut c_void, data: *const c_void), Changed;
    chroot(path: *const c_char), Done;
    setns(fd: c_int, kind: c_int), Done;
}

/// unshare(2)
#[unsafe(no_mangle)]
extern "C" fn unshare(flags: c_int) -> c_int {
    by_number(libc::SYS_unshare, [flags.into(), 0, 0, 0, 0, 0]) as c_int
}

/// prctl(2). A word more than the program has given is looked at by nobody.
#[unsafe(no_mangle)]
extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    let [a, b, c, d] = [a, b, c, d].map(c_ulong::cast_signed);
    by_number(libc::SYS_prctl, [option.into(), a, b, c, d, 0]) as c_int
}

/// When the system call of this number means that rights were given up; none if it never does.
fn when(number: c_long, [a, b, c, ..]: [c_long; 6]) -> Option<When> {
    // What a thread shares with others in its process is no right.
    let own = c_long::from(libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SYSVSEM);
    Some(match number {
        libc::SYS_setuid | libc::SYS_setgid | libc::SYS_setreuid | libc::SYS_setregid => When::Changed,
        libc::SYS_setresuid | libc::SYS_setresgid | libc::SYS_setfsuid | libc::SYS_setfsgid => When::Changed,
        libc::SYS_setgroups | libc::SYS_capset => When::Changed,
        libc::SYS_chroot | libc::SYS_pivot_root | libc::SYS_setns | libc::SYS_landlock_restrict_self => When::Done,
        libc::SYS_unshare if a & !own != 0 => When::Done,
        // A filter that is no place in memory is a question.
        libc::SYS_seccomp => match a as c_uint {
            libc::SECCOMP_SET_MODE_STRICT => When::Before,
            libc::SECCOMP_SET_MODE_FILTER if c != 0 => When::Before,
            _ => return None,
        },
        libc::SYS_prctl => match a as c_int {
            libc::PR_SET_SECCOMP if b == c_long::from(libc::SECCOMP_MODE_STRICT) || c != 0 => When::Before,
            libc::PR_CAPBSET_DROP | libc::PR_SET_SECUREBITS => When::Done,
            _ => return None,
        },
        _ => return None,
    })
}

/// Makes a system call.
pub(crate) fn by_number(number: c_long, words: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = words;
    let real = || system!(number, a, b, c, d, e, f);
    match when(number, words) {
        Some(when) => changing(when, real),
        None => real(),
    }
}
