//! The gate as it is.
//!
//! The checker knows the one order of all (`SeqCst`) of fences alone, and takes operations of that order for `AcqRel`.
//! So a fence of that order stands before each of them: that is how processors that have no such operations do them.

mod meeting {
    meeting!(|order| if order == Ordering::SeqCst {
        loom::sync::atomic::fence(order);
    });
}

#[path = "../../src/gate.rs"]
mod gate;

programs!();
