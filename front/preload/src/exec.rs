//! Starting other programs: without this library where they do not take it, or this process may not read it.
//!
//! A child of fork(2) or vfork(2) calls these: nothing here allocates or takes a lock.

use crate::files::{directory, text};
use crate::raw::{self, Behind, system};
use crate::{fits, shim};
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t as Actions, posix_spawnattr_t as Attributes};
use std::ffi::CStr;
use std::sync::OnceLock;

type Words = *const *const c_char;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// So many words of an environment, and so many bytes of what else is to be preloaded, can be handed on changed.
const MOST: usize = 1024;
const LONGEST: usize = 4096;

/// Where this library lies, as the loader was told.
static LIBRARY: OnceLock<&'static CStr> = OnceLock::new();

static EXECVPE: Behind = Behind::new(&[c"execvpe"]);
static SPAWN: Behind = Behind::new(&[c"posix_spawn"]);
static SPAWNP: Behind = Behind::new(&[c"posix_spawnp"]);

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The library is loaded.
pub(crate) fn begin() {
    EXECVPE.address();
    SPAWN.address();
    SPAWNP.address();
    // SAFETY: all words are zeros, which are no pointers.
    let mut told = unsafe { std::mem::zeroed::<libc::Dl_info>() };
    // SAFETY: an address in this library; the structure is this function's own.
    let found = unsafe { libc::dladdr((&raw const LIBRARY).cast(), &raw mut told) };
    if found != 0 && !told.dli_fname.is_null() {
        // SAFETY: the loader's own string, which stays for as long as the library.
        let _ = LIBRARY.set(unsafe { CStr::from_ptr(told.dli_fname) });
    }
}

/// The words of an environment, up to the null behind them.
fn entries<'a>(environment: Words) -> impl Iterator<Item = &'a CStr> {
    let at = move |n| {
        // SAFETY: the program hands words to a function that reads them up to a null, before which none is null.
        let word = unsafe { environment.add(n).read() };
        text(word)
    };
    let count = if environment.is_null() { 0 } else { usize::MAX };
    (0..count).map_while(at)
}

/// What is to be preloaded behind this library, if it comes first.
fn behind(entry: &[u8]) -> Option<&[u8]> {
    let mut rest = entry.strip_prefix(PRELOAD)?;
    let mut ours = false;
    while let Some(after) = rest.strip_prefix(LIBRARY.get()?.to_bytes()) {
        rest = match after {
            [b':' | b' ', others @ ..] => others,
            [] => after,
            _ => break,
        };
        ours = true;
    }
    ours.then_some(rest)
}

/// Takes this library out of the program's own environment.
pub(crate) fn forget() {
    // SAFETY: libc's word, or what the program has put there.
    let environment = unsafe { environ };
    let found = entries(environment.cast_const().cast()).position(|entry| behind(entry.to_bytes()).is_some());
    let Some(found) = found else { return };
    // SAFETY: the word is one before the null, and so are those up to it.
    unsafe {
        let place = environment.add(found);
        let entry = CStr::from_ptr(*place);
        let others = behind(entry.to_bytes()).map_or(0, <[u8]>::len);
        if others > 0 {
            // The name goes to just before the rest: our own path is longer.
            let begin = place.read().add(entry.count_bytes() - others - PRELOAD.len());
            PRELOAD.as_ptr().cast::<c_char>().copy_to_nonoverlapping(begin, PRELOAD.len());
            place.write(begin);
        } else {
            let after = entries(place.add(1).cast_const().cast()).count() + 1;
            place.add(1).copy_to(place, after);
        }
    }
}

/// A program takes the library, if it is none of those that there is a reason against.
fn takes(why_not: Option<&str>) -> bool {
    if why_not.is_some() {
        shim::unfit();
    }
    let reads = |library: &CStr| system!(libc::SYS_faccessat, libc::AT_FDCWD, library.as_ptr(), libc::R_OK) == 0;
    why_not.is_none() && !shim::is_left() && LIBRARY.get().is_none_or(|library| reads(library))
}

/// Starts a program by `real`, which is handed the environment.
fn start(why_not: Option<&str>, environment: Words, real: &dyn Fn(Words) -> c_int) -> c_int {
    if takes(why_not) { real(environment) } else { without(environment, real) }
}

/// As [`start`], without this library.
fn without(environment: Words, real: &dyn Fn(Words) -> c_int) -> c_int {
    let (mut words, mut others) = ([std::ptr::null::<c_char>(); MOST], [0u8; LONGEST]);
    let mut count = 0;
    for entry in entries(environment) {
        let at = match behind(entry.to_bytes()) {
            None => entry.as_ptr(),
            Some([]) => continue,
            Some(rest) => {
                let Some(place) = others.get_mut(..PRELOAD.len() + rest.len()) else { return real(environment) };
                let (name, value) = place.split_at_mut(PRELOAD.len());
                name.copy_from_slice(PRELOAD);
                value.copy_from_slice(rest);
                others.as_ptr().cast()
            }
        };
        // The last one stays null.
        let Some(word) = words[..MOST - 1].get_mut(count) else { return real(environment) };
        *word = at;
        count += 1;
    }
    real(words.as_ptr())
}

/// Why the program at a path does not take the library.
fn why_not_at(dir: c_int, path: *const c_char) -> Option<&'static str> {
    let error = raw::errno();
    let why_not = directory(dir)
        .zip(text(path))
        .and_then(|(dir, path)| fits::why_not_at(dir, path))
        .filter(|why| *why != fits::STATIC);
    raw::fail(error);
    why_not
}

/// Why a program that is searched does not take the library.
fn why_not_named(file: *const c_char) -> Option<&'static str> {
    // SAFETY: libc's word, or what the program has put there.
    let environment: Words = unsafe { environ }.cast_const().cast();
    let error = raw::errno();
    let dirs = entries(environment).find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
    let why_not = text(file).and_then(|file| fits::why_not_named(file, dirs)).filter(|why| *why != fits::STATIC);
    raw::fail(error);
    why_not
}

/// execve(2)
#[unsafe(no_mangle)]
extern "C" fn execve(path: *const c_char, words: Words, environment: Words) -> c_int {
    let real = |environment: Words| system!(libc::SYS_execve, path, words, environment) as c_int;
    start(why_not_at(libc::AT_FDCWD, path), environment, &real)
}

/// execv(3)
#[unsafe(no_mangle)]
extern "C" fn execv(path: *const c_char, words: Words) -> c_int {
    // SAFETY: libc's word, or what the program has put there.
    execve(path, words, unsafe { environ }.cast_const().cast())
}

/// execvpe(3)
#[unsafe(no_mangle)]
extern "C" fn execvpe(file: *const c_char, words: Words, environment: Words) -> c_int {
    type Real = unsafe extern "C" fn(*const c_char, Words, Words) -> c_int;
    let real = |environment: Words| match EXECVPE.address() {
        0 => raw::fail(libc::ENOSYS),
        // SAFETY: libc's function of this name, with the program's arguments for it.
        at => unsafe { std::mem::transmute::<usize, Real>(at)(file, words, environment) },
    };
    start(why_not_named(file), environment, &real)
}

/// execvp(3)
#[unsafe(no_mangle)]
extern "C" fn execvp(file: *const c_char, words: Words) -> c_int {
    // SAFETY: libc's word, or what the program has put there.
    execvpe(file, words, unsafe { environ }.cast_const().cast())
}

/// As [`execve`], with the environment behind the null of the words.
#[cfg(target_arch = "x86_64")]
extern "C" fn execve_behind(path: *const c_char, words: Words) -> c_int {
    // SAFETY: execle(3) is given an environment there.
    let environment = unsafe { words.add(entries(words).count() + 1).read() };
    execve(path, words, environment.cast())
}

/// A function of libc that takes words one by one. Those in registers are put before those on the stack, which makes
/// them one array, for a function that takes that.
#[cfg(target_arch = "x86_64")]
macro_rules! listed {
    ($name:ident, $real:ident) => {
        /// The function of libc of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(path: *const c_char) -> c_int {
            std::arch::naked_asm!(
                "pop r10", // Where to return to.
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push r10",
                "call {real}",
                "pop r10",
                "add rsp, 40",
                "push r10",
                "ret",
                real = sym $real,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
listed!(execl, execv);
#[cfg(target_arch = "x86_64")]
listed!(execlp, execvp);
#[cfg(target_arch = "x86_64")]
listed!(execle, execve_behind);

/// execveat(2)
#[unsafe(no_mangle)]
extern "C" fn execveat(dir: c_int, path: *const c_char, words: Words, environment: Words, flags: c_int) -> c_int {
    let real = |environment: Words| system!(libc::SYS_execveat, dir, path, words, environment, flags) as c_int;
    // What a descriptor itself is open to nobody asks.
    start(why_not_at(dir, path), environment, &real)
}

/// fexecve(3)
#[unsafe(no_mangle)]
extern "C" fn fexecve(fd: c_int, words: Words, environment: Words) -> c_int {
    execveat(fd, c"".as_ptr(), words, environment, libc::AT_EMPTY_PATH)
}

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const Actions,
    *const Attributes,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;

macro_rules! spawn {
    ($name:ident, $real:ident, $why_not:expr) => {
        /// The function of libc of this name.
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            child: *mut pid_t,
            program: *const c_char,
            actions: *const Actions,
            attributes: *const Attributes,
            words: *const *mut c_char,
            environment: Words,
        ) -> c_int {
            let real = |environment: Words| match $real.address() {
                0 => libc::ENOSYS,
                // SAFETY: libc's function of this name, with the program's arguments for it.
                at => unsafe {
                    let spawn = std::mem::transmute::<usize, Spawn>(at);
                    spawn(child, program, actions, attributes, words, environment.cast())
                },
            };
            start($why_not(program), environment, &real)
        }
    };
}

spawn!(posix_spawn, SPAWN, |path| why_not_at(libc::AT_FDCWD, path));
spawn!(posix_spawnp, SPAWNP, why_not_named);
