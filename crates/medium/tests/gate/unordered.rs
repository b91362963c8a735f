//! The gate with operations that have no order among those of different words.

mod meeting {
    meeting!(|_| ());
}

#[path = "../../src/gate.rs"]
mod gate;

programs!();
