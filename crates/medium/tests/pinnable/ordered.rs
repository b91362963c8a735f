//! The words as they are.

mod meeting {
    meeting!(|order| order);
}

#[path = "../../src/pinnable.rs"]
mod pinnable;

programs!();
