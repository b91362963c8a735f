//! The library that `ondol run` puts before libc in a program (`LD_PRELOAD`): what the program writes to files that it
//! syncs goes into the log of `ondol_run_log`, too, and its `fsync` ends there where that is as good.
//!
//! Every function here has a namesake in libc and does what that does, by the same system call. The decision what may
//! end in the log is `ondol_run_log::Client`'s; here is what it needs to know of descriptors. No thread is started, no
//! signal is handled, and what descriptors stay open `seconds` says. Where anything is not understood, the call goes to
//! the kernel as it came. All of it is a C border, so `unsafe` is allowed in this crate, block by block with its
//! reason. Not libc's functions but system calls are below, so `write` and `fsync` are no cancellation points of
//! threads here.
#![allow(unsafe_code, reason = "a C border")]
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod call;
mod descriptors;
mod exec;
mod files;
mod fits;
mod names;
mod raw;
mod rights;
mod seconds;
mod shim;
mod syncs;
mod times;
mod writes;

/// An allocator of its own: a signal handler may write while the program is inside its own allocator. It sets itself
/// up when a program starts, which is much of what a start costs. dlmalloc does not, but a handler that forks could
/// wait for itself on its lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Called by the loader before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    raw::syscall();
    descriptors::begin();
    exec::begin();
    files::begin();
    rights::begin();
    syncs::begin();
    seconds::begin();
    shim::begin();
}
