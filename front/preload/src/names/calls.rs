//! The calls that change names.

use crate::names::{Moved, Past, PastFile, remove_by};
use crate::raw::{self, system};
use libc::{AT_FDCWD, c_char, c_int, c_uint, dev_t, mode_t};
use ondol_run_log::Change;

/// unlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    let real = || system!(libc::SYS_unlinkat, dir, path, flags) as c_int;
    if flags == 0 {
        return remove_by(dir, path, &real);
    }
    let _past = Past::of(dir, path);
    real()
}

/// unlink(2)
#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    remove_by(AT_FDCWD, path, &|| old::unlink(path))
}

/// remove(3)
#[unsafe(no_mangle)]
extern "C" fn remove(path: *const c_char) -> c_int {
    match unlink(path) {
        -1 if raw::errno() == libc::EISDIR => rmdir(path),
        answer => answer,
    }
}

/// renameat2(2)
#[unsafe(no_mangle)]
extern "C" fn renameat2(
    old_dir: c_int,
    old: *const c_char,
    new_dir: c_int,
    new: *const c_char,
    flags: c_uint,
) -> c_int {
    let real = || system!(libc::SYS_renameat2, old_dir, old, new_dir, new, flags) as c_int;
    // Where there is something of that name the kernel refuses.
    if flags == 0 || flags == libc::RENAME_NOREPLACE {
        return Moved { change: Change::Rename, old: (old_dir, old), new: (new_dir, new) }.by(&real);
    }
    let _past = (Past::of(old_dir, old), Past::of(new_dir, new));
    let _files = (PastFile::of(old_dir, old), PastFile::of(new_dir, new));
    real()
}

/// renameat(2)
#[unsafe(no_mangle)]
extern "C" fn renameat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char) -> c_int {
    renameat2(old_dir, old, new_dir, new, 0)
}

/// rename(2)
#[unsafe(no_mangle)]
extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    let moved = Moved { change: Change::Rename, old: (AT_FDCWD, old), new: (AT_FDCWD, new) };
    moved.by(&|| old::rename(old, new))
}

/// linkat(2)
#[unsafe(no_mangle)]
extern "C" fn linkat(old_dir: c_int, old: *const c_char, new_dir: c_int, new: *const c_char, flags: c_int) -> c_int {
    let real = || system!(libc::SYS_linkat, old_dir, old, new_dir, new, flags) as c_int;
    let moved = Moved { change: Change::Link, old: (old_dir, old), new: (new_dir, new) };
    if flags == 0 { moved.by(&real) } else { moved.past(&real) }
}

/// link(2)
#[unsafe(no_mangle)]
extern "C" fn link(old: *const c_char, new: *const c_char) -> c_int {
    let moved = Moved { change: Change::Link, old: (AT_FDCWD, old), new: (AT_FDCWD, new) };
    moved.by(&|| old::link(old, new))
}

/// The system calls that libc makes where the processor has them: a filter of a program's may know no others.
mod old {
    use crate::raw::system;
    use libc::{c_char, c_int, mode_t};

    macro_rules! either {
        ($old:ident($($word:expr),*), $new:ident($($words:expr),*)) => {{
            #[cfg(target_arch = "x86_64")]
            let answer = system!(libc::$old, $($word),*) as c_int;
            #[cfg(not(target_arch = "x86_64"))]
            let answer = system!(libc::$new, $($words),*) as c_int;
            answer
        }};
    }

    pub(super) fn unlink(path: *const c_char) -> c_int {
        either!(SYS_unlink(path), SYS_unlinkat(libc::AT_FDCWD, path, 0))
    }

    pub(super) fn rmdir(path: *const c_char) -> c_int {
        either!(SYS_rmdir(path), SYS_unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR))
    }

    pub(super) fn rename(old: *const c_char, new: *const c_char) -> c_int {
        either!(SYS_rename(old, new), SYS_renameat2(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0))
    }

    pub(super) fn link(old: *const c_char, new: *const c_char) -> c_int {
        either!(SYS_link(old, new), SYS_linkat(libc::AT_FDCWD, old, libc::AT_FDCWD, new, 0))
    }

    pub(super) fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
        either!(SYS_mkdir(path, mode), SYS_mkdirat(libc::AT_FDCWD, path, mode))
    }

    pub(super) fn symlink(target: *const c_char, path: *const c_char) -> c_int {
        either!(SYS_symlink(target, path), SYS_symlinkat(target, libc::AT_FDCWD, path))
    }
}

/// mkdirat(2)
#[unsafe(no_mangle)]
extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let _past = Past::of(dir, path);
    system!(libc::SYS_mkdirat, dir, path, mode) as c_int
}

/// mkdir(2)
#[unsafe(no_mangle)]
extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::mkdir(path, mode)
}

/// rmdir(2)
#[unsafe(no_mangle)]
extern "C" fn rmdir(path: *const c_char) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::rmdir(path)
}

/// symlinkat(2)
#[unsafe(no_mangle)]
extern "C" fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    let _past = Past::of(dir, path);
    system!(libc::SYS_symlinkat, target, dir, path) as c_int
}

/// symlink(2)
#[unsafe(no_mangle)]
extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    let _past = Past::of(AT_FDCWD, path);
    old::symlink(target, path)
}

/// mknodat(2)
#[unsafe(no_mangle)]
extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    let _past = Past::of(dir, path);
    system!(libc::SYS_mknodat, dir, path, mode, device) as c_int
}

/// mknod(2)
#[unsafe(no_mangle)]
extern "C" fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int {
    mknodat(AT_FDCWD, path, mode, device)
}
