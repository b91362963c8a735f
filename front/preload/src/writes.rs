//! `write` and its kin.

use crate::call::{FdCall, Seen};
use crate::raw::{self, system};
use crate::shim::{self, Uncounted};
use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};
use ondol_run_log::{WriteCall, Written};

/// A write: into the log, too, if its file is trusted.
#[inline(always)]
fn write_to(fd: c_int, parts: &[iovec], offset: Option<off_t>, flags: c_int, real: &impl Fn() -> c_long) -> ssize_t {
    // A file that the kernel syncs each write to is never noted as one without a slot, and one elsewhere has no
    // records.
    match shim::uncounted(fd).filter(|_| flags == 0) {
        Some(Uncounted::Other) => real() as ssize_t,
        Some(Uncounted::Later(given)) => {
            let wrote = real();
            if shim::given() == given { wrote as ssize_t } else { late(fd, parts, offset, real, wrote) }
        }
        None => counted(fd, parts, offset, flags, real),
    }
}

/// A write is over that was not counted, and slots were given meanwhile.
#[cold]
fn late(fd: c_int, parts: &[iovec], offset: Option<off_t>, real: &dyn Fn() -> c_long, wrote: c_long) -> ssize_t {
    appeared(&FdCall { fd, parts, offset, flags: 0, real, seen: Seen::default() }, wrote)
}

/// A write of whose file more is to be known.
#[inline(never)]
fn counted(fd: c_int, parts: &[iovec], offset: Option<off_t>, flags: c_int, real: &dyn Fn() -> c_long) -> ssize_t {
    let call = FdCall { fd, parts, offset, flags, real, seen: Seen::default() };
    // Before anything is looked for.
    let given = shim::given();
    let Some((shim, _inside)) = shim::enter() else {
        return match shim::interrupted(fd) {
            Some((shim, slot)) => answered(shim.client.write_at_once(slot, &call)),
            None => past(&call, given),
        };
    };
    // What a write has promised no older record may outlive, whatever was known of the descriptor.
    let mut slot = match call.may_be_durable() {
        true => shim.durable_slot(fd),
        false if shim.is_later(fd, given) => None,
        false => shim.slot(fd),
    };
    // A slot is another file's at most once in a while.
    for _ in 0..4 {
        let Some(known) = slot else { return past(&call, given) };
        match shim.client.write(known, &call) {
            Ok(Written::Done(wrote)) => return wrote as ssize_t,
            Err(error) => return raw::fail(error) as ssize_t,
            Ok(Written::Stale) => {
                shim::forget(fd);
                slot = shim.resolve(fd);
            }
        }
    }
    appeared(&call, real())
}

/// A write to a file without a slot, `given` being how many were given before one was looked for.
fn past(call: &FdCall<'_>, given: u32) -> ssize_t {
    let wrote = (call.real)();
    if shim::given() == given { wrote as ssize_t } else { appeared(call, wrote) }
}

/// A write is over whose file may have a slot by now.
fn appeared(call: &FdCall<'_>, wrote: c_long) -> ssize_t {
    match shim::appeared(call.fd) {
        Some((shim, slot)) => answered(shim.client.appeared(slot, call, raw::result(wrote).map(|n| n as usize))),
        None => wrote as ssize_t,
    }
}

fn answered(answer: Result<usize, c_int>) -> ssize_t {
    answer.map_or_else(|error| raw::fail(error) as ssize_t, |wrote| wrote as ssize_t)
}

fn one(buf: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec { iov_base: buf.cast_mut(), iov_len: len }]
}

/// write(2)
#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    write_to(fd, &one(buf, len), None, 0, &|| system!(libc::SYS_write, fd, buf, len))
}

/// pwrite(2)
#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, buf: *const c_void, len: size_t, offset: off_t) -> ssize_t {
    write_to(fd, &one(buf, len), Some(offset), 0, &|| system!(libc::SYS_pwrite64, fd, buf, len, offset))
}

/// pwrite(2)
#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, buf: *const c_void, len: size_t, offset: off_t) -> ssize_t {
    pwrite64(fd, buf, len, offset)
}

/// writev(2)
#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    write_to(fd, raw::parts(parts, count), None, 0, &|| system!(libc::SYS_writev, fd, parts, count))
}

/// pwritev(2)
#[unsafe(no_mangle)]
extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // The kernel takes the offset in two halves; on 64 bits all of it is in the first.
    let real = || system!(libc::SYS_pwritev, fd, parts, count, offset, 0);
    write_to(fd, raw::parts(parts, count), Some(offset), 0, &real)
}

/// pwritev(2)
#[unsafe(no_mangle)]
extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    pwritev64(fd, parts, count, offset)
}

/// pwritev2(2)
#[unsafe(no_mangle)]
extern "C" fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    let real = || system!(libc::SYS_pwritev2, fd, parts, count, offset, 0, flags);
    // -1 is the descriptor's own offset.
    write_to(fd, raw::parts(parts, count), Some(offset).filter(|at| *at != -1), flags, &real)
}

/// pwritev2(2)
#[unsafe(no_mangle)]
extern "C" fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
    pwritev64v2(fd, parts, count, offset, flags)
}
