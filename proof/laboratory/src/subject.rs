//! What is explored: something that lives on media, is recovered by code that ships, and has a contract.

use crate::faults::Fault;
use crate::names::Names;
use crate::rot::Flip;
use crate::run::Run;
use ondol_coverage::{Heard, NOTHING};
use ondol_env::sync::Arc;
use ondol_power::{Event, Layer, Medium, PowerDomain};
use ondol_schedule::Schedule;

/// A recorded run of something, and what must hold of it after a crash.
pub trait Subject: Told {
    /// What a recovered state was found to be, for as long as nothing changes it.
    type Matched: Clone + Send;

    /// The media when the recording began.
    fn media(&self) -> &[Medium];

    /// Everything since.
    fn events(&self) -> &[Event];

    /// Edges that were executed since, between the events.
    fn heard(&self) -> &Heard {
        &NOTHING
    }

    /// Recovers with the code that ships, on media that hold `layers`; what they hold then.
    ///
    /// # Errors
    /// It cannot be recovered, which breaks the contract.
    fn recover(&self, layers: &[Layer]) -> Result<Vec<Layer>, String>;

    /// Everything from the power coming back until calls are taken again, with its events recorded in `domain`.
    ///
    /// # Errors
    /// As [`Subject::recover`].
    fn come_back(&self, layers: &[Layer], domain: &Arc<PowerDomain>) -> Result<(), String>;

    /// A number that is equal for recovered media that the contract cannot tell apart.
    fn essence(&self, recovered: &mut [Layer]) -> u128;

    /// Whether two recovered media are one to whoever uses them; always where something may be there in part.
    ///
    /// # Errors
    /// One cannot be read, which breaks the contract.
    fn is_same(&self, _one: &[Layer], _other: &[Layer]) -> Result<bool, String> {
        Ok(true)
    }

    /// What the recovered media hold, which must be allowed after `events` events.
    ///
    /// # Errors
    /// How it breaks the contract.
    fn judge(&self, recovered: &[Layer], events: usize) -> Result<Self::Matched, String>;

    /// Whether what once was found is also allowed after `events` events, with no need to look again.
    fn still_allowed(&self, matched: &Self::Matched, events: usize) -> bool;

    /// Whether to look again, after this many events, at all that can be there, although nothing was written: fewer
    /// states are allowed than after one event less, or the workload asks for it.
    fn is_narrowed(&self, events: usize) -> bool;

    /// What programs that others wrote say to the crash state, and to what our code made of it. Too slow for every
    /// state.
    ///
    /// # Errors
    /// Their complaint, which breaks the contract.
    fn second_opinion(&self, layers: &[Layer], events: usize) -> Result<(), String>;

    /// What the kernel makes of the crash state, by replaying it itself. Much too slow for every state. Says whether it
    /// was asked.
    ///
    /// # Errors
    /// Its complaint, or what is wrong with what it left, which breaks the contract.
    fn kernel_opinion(&self, _layers: &[Layer], _events: usize) -> Result<bool, String> {
        Ok(false)
    }

    /// The crash state, recovered and used, as a run that can be crashed again; equal seeds use it in equal ways.
    /// `None` of what nobody uses.
    fn use_after(&self, _layers: &[Layer], _seed: u64) -> Option<Result<Run, String>> {
        None
    }

    /// A bit of the crash state, after so many events, whose damage recovery has to notice; `None` where `seed` finds
    /// none.
    fn flip(&self, _events: usize, _seed: u64) -> Option<Flip> {
        None
    }

    /// What recovery makes of the crash state with that bit changed: it refuses it by name, or comes to what is right.
    ///
    /// # Errors
    /// It does neither, which breaks the contract.
    fn judge_flipped(&self, _layers: &[Layer], _flip: Flip, _events: usize) -> Result<(), String> {
        Ok(())
    }
}

/// What is told of a run when something is wrong with it.
pub trait Told: Sync {
    /// What blocks of the media are.
    fn names(&self) -> Names {
        Names::default()
    }

    /// Everything that is needed to see a violation again, as text, and the command that does it.
    fn describe(&self) -> Description;
}

/// A run as text.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Arguments of `ondol crash` that make this run.
    pub arguments: String,
    /// The run, for readers.
    pub text: String,
    /// The interleaving, if there are several threads.
    pub schedule: Option<Schedule>,
    /// How the medium fails, if it does.
    pub fault: Option<Fault>,
}
