//! One state again, and the smallest state that still breaks the contract.

use super::{After, CasePath, Then, Violation, recovery, violation};
use crate::subject::Subject;
use ondol_power::{Case, Keep, Layer};

/// Builds one state and judges it, with the programs of others too. `None` if nothing is wrong with it.
///
/// # Errors
/// The path does not fit the run.
pub fn replay<S: Subject>(subject: &S, path: &CasePath) -> Result<Option<Violation>, String> {
    let found = judged(subject, path)?;
    Ok(found.err().map(|what| violation(subject, what, path.clone())))
}

fn judged<S: Subject>(subject: &S, path: &CasePath) -> Result<Result<(), String>, String> {
    let happened = path.0.first().ok_or("no crash state")?.events;
    let layers = match state(subject, &path.0)? {
        Ok(layers) => layers,
        Err(what) => return Ok(Err(what)),
    };
    if let Some(Then::Flipped(flip)) = path.1 {
        return Ok(subject.judge_flipped(&layers, flip, happened));
    }
    if let Some(Then::Half(at)) = path.1 {
        return super::reads::half_again(subject, &path.0[0], at);
    }
    let recovered = match subject.recover(&layers) {
        Ok(recovered) => recovered,
        Err(what) => return Ok(Err(what)),
    };
    let ours = subject.judge(&recovered, happened).and_then(|_| subject.second_opinion(&layers, happened));
    if let Err(what) = ours.and_then(|()| subject.kernel_opinion(&layers, happened)) {
        return Ok(Err(what));
    }
    match &path.1 {
        Some(Then::Used(after)) => used(subject, &layers, after),
        _ => Ok(Ok(())),
    }
}

/// What is wrong with a state once it is recovered and used.
fn used<S: Subject>(subject: &S, layers: &[Layer], after: &After) -> Result<Result<(), String>, String> {
    match (subject.use_after(layers, after.seed), &after.case) {
        (None, _) => Err("this is not used after recovery".into()),
        (Some(Err(what)), _) => Ok(Err(what)),
        (Some(Ok(_)), None) => Ok(Ok(())),
        (Some(Ok(run)), Some(case)) => {
            let found = judged(&run, &CasePath(vec![case.clone()], None))?;
            Ok(found.map_err(|what| format!("used after recovery and crashed again: {what}")))
        }
    }
}

/// The media after the crashes of `path`; the inner error is a recovery on the way that failed.
fn state<S: Subject>(subject: &S, path: &[Case]) -> Result<Result<Vec<Layer>, String>, String> {
    let (first, rest) = path.split_first().ok_or("no crash state")?;
    let mut layers = first.build(subject.media(), subject.events())?;
    for case in rest {
        match recovery(subject, &layers) {
            Ok(back) => layers = case.build(&back.media, &back.events)?,
            Err(what) => return Ok(Err(what)),
        }
    }
    Ok(Ok(layers))
}

/// The state with the fewest losses that still breaks the contract: what can be there is there.
pub fn smallest<S: Subject>(subject: &S, violation: Violation) -> Violation {
    let mut best = violation;
    for case in 0..best.path.0.len() {
        for item in 0..best.path.0[case].keep.len() {
            // All of it; if it must be torn or lost, rather simply lost than torn.
            for keep in [Keep::All, Keep::None] {
                let now = &best.path.0[case].keep[item];
                if *now == Keep::All || *now == keep {
                    continue;
                }
                let mut path = best.path.clone();
                path.0[case].keep[item] = keep;
                // A later crash of the path may not fit any more: then this one stays as it is.
                if let Ok(Some(smaller)) = replay(subject, &path) {
                    best = smaller;
                    break;
                }
            }
        }
    }
    smallest_used(subject, best)
}

/// The same of what was lost after the recovered volume was used.
fn smallest_used<S: Subject>(subject: &S, mut best: Violation) -> Violation {
    fn crash(path: &mut CasePath) -> Option<&mut Vec<Keep>> {
        match &mut path.1 {
            Some(Then::Used(After { case: Some(case), .. })) => Some(&mut case.keep),
            _ => None,
        }
    }
    let losses = crash(&mut best.path).map_or(0, |keep| keep.len());
    for item in 0..losses {
        for keep in [Keep::All, Keep::None] {
            let mut path = best.path.clone();
            let Some(now) = crash(&mut path).and_then(|keep| keep.get_mut(item)) else { break };
            if *now == Keep::All || *now == keep {
                continue;
            }
            *now = keep;
            if let Ok(Some(smaller)) = replay(subject, &path) {
                best = smaller;
                break;
            }
        }
    }
    best
}
