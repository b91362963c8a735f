//! Background work as objects that are stepped: who gives them a thread, or none, is the caller's choice.

/// What one step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing to do now.
    Idle,
    /// Something was done; another step may find more.
    Worked,
}

/// A committer, checkpointer or flusher: `step` does one bounded piece of its work on the calling thread.
///
/// The facade runs steps on threads; the crash laboratory calls them from a schedule it controls.
pub trait Step: Send + Sync {
    /// The type of a failure of the work itself.
    type Error;
    /// Does one piece of work.
    ///
    /// # Errors
    /// The failure of the work; the owner of the step decides what it means for the volume.
    fn step(&self) -> Result<Progress, Self::Error>;
}
