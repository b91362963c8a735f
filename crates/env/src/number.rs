//! Threads by number.

use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of the calling thread: 0 for the first thread that asks, then 1, and so on. Never given twice in a
/// process.
///
/// Under a scheduler it is the number of the task. For sharding counters, and for saying in a recorded event whose
/// fence it was.
pub fn thread_number() -> u32 {
    if let Some(task) = crate::sync::task() {
        return task;
    }
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Relaxed);
    }
    // A thread that is being torn down has no number any more; nobody fences then.
    NUMBER.try_with(|n| *n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::thread_number;

    #[test]
    fn each_thread_has_its_own_number_and_keeps_it() {
        let mine = thread_number();
        let other = crate::sync::thread::spawn(|| (thread_number(), thread_number())).join().unwrap();
        assert_eq!(thread_number(), mine);
        assert_eq!(other.0, other.1);
        assert_ne!(other.0, mine);
    }
}
