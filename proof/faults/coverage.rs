//! Which edges of the control flow were executed: one byte for each, which the compiler's instrumentation counts up.
//!
//! Source: LLVM, SanitizerCoverage, "Inline 8bit-counters".
#![allow(unsafe_code)]

use std::sync::Mutex;

/// The counters of each program or library that is loaded, by address.
static COUNTERS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Each object of a program calls this when it is loaded, with the counters of all of them.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, end: *mut u8) {
    let mut counters = COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = (start as usize, end as usize);
    if !counters.contains(&found) {
        counters.push(found);
    }
}

/// Calls `note` with the number of each edge that was executed since this was last asked, by any thread.
pub fn take(mut note: impl FnMut(usize)) {
    let counters = COUNTERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let mut before = 0;
    for (start, end) in counters {
        for address in start..end {
            // SAFETY: the compiler reserves these bytes for as long as the program runs. Threads that count meanwhile may lose
            // a count, which no one relies on.
            let counter = unsafe { std::sync::atomic::AtomicU8::from_ptr(address as *mut u8) };
            if counter.load(std::sync::atomic::Ordering::Relaxed) > 0 {
                counter.store(0, std::sync::atomic::Ordering::Relaxed);
                note(before + address - start);
            }
        }
        before += end - start;
    }
}
