//! Has tests and examples alone: volumes in object storage over stores that misbehave.
