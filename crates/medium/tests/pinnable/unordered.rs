//! The words with operations that order nothing but themselves.

mod meeting {
    meeting!(|_| Ordering::Relaxed);
}

#[path = "../../src/pinnable.rs"]
mod pinnable;

programs!();
