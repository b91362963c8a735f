//! A violation as a story: what was written, what a block is, what was lost, and what recovery made of it.

use super::{CasePath, Recovery, Then, recovery};
use crate::names::Names;
use crate::subject::Subject;
use ondol_power::{Case, Event, Keep, Layer};

/// Events that are shown of each part.
const SHOWN: usize = 40;

/// Writes of a batch that are named.
const MOST_OF_BATCH: usize = 24;

/// Everything from the first call to the last recovery: events a line each, with what the crash left of them.
pub(super) fn of<S: Subject>(subject: &S, path: &CasePath) -> String {
    let Some((first, rest)) = path.0.split_first() else { return String::new() };
    let names = subject.names();
    let part = |heading: &str, case: &Case, events: &[Event]| {
        let happened = &events[..case.events.min(events.len())];
        format!("{heading}:\n{}", told(&names, happened, &case.keep))
    };
    let mut text = part("events before the crash", first, subject.events());
    let Ok(mut layers) = first.build(subject.media(), subject.events()) else { return text };
    for case in rest {
        let Ok(Recovery { media, events, .. }) = recovery(subject, &layers) else { return text };
        text += &part("events of the recovery, until it was crashed", case, &events);
        match case.build(&media, &events) {
            Ok(built) => layers = built,
            Err(_) => return text,
        }
    }
    if let Some(Then::Flipped(flip)) = &path.1 {
        let name = names.of_log(flip.byte);
        return text + &format!("then bit {} of byte {} changes ({name})\n", flip.bit, flip.byte);
    }
    text += &last(subject, &names, &layers);
    if let Some(Then::Used(after)) = &path.1
        && let Some(Ok(run)) = subject.use_after(&layers, after.seed)
    {
        text += &run.description.text;
        if let Some(case) = &after.case {
            text += &of(&run, &CasePath(vec![case.clone()], None));
        }
    }
    text
}

/// The recovery that came to its end.
fn last<S: Subject>(subject: &S, names: &Names, layers: &[Layer]) -> String {
    match recovery(subject, layers) {
        Ok(back) if back.events.is_empty() => "the recovery writes nothing\n".into(),
        Ok(back) => format!("events of the recovery:\n{}", told(names, &back.events, &[])),
        Err(what) => format!("the recovery fails: {what}\n"),
    }
}

/// The last of `events`; `keep` is what survived of those that no flush has covered.
fn told(names: &Names, events: &[Event], keep: &[Keep]) -> String {
    let mut fates = vec![""; events.len()];
    let pending = pending(events);
    // Lines of NVM are items of their own, in another order than their stores.
    let torn: Vec<String> = keep.iter().map(|keep| format!("torn {keep}: ")).collect();
    if let (true, [of_batches]) = (events.iter().any(|event| matches!(event, Event::Batch { .. })), keep) {
        let there = match of_batches {
            Keep::All => pending.len(),
            Keep::Stores(n) => *n as usize,
            _ => 0,
        };
        pending.iter().enumerate().for_each(|(n, at)| fates[*at] = if n < there { "there: " } else { "LOST: " });
    } else if pending.len() == keep.len() {
        for ((at, keep), torn) in pending.iter().zip(keep).zip(&torn) {
            fates[*at] = match keep {
                Keep::None => "LOST: ",
                Keep::All => "there: ",
                _ => torn,
            };
        }
    }
    let from = events.len().saturating_sub(SHOWN);
    let lines = events[from..].iter().zip(&fates[from..]);
    let skipped = if from > 0 { format!("  ({from} earlier ones)\n") } else { String::new() };
    skipped + &lines.map(|(event, fate)| format!("  {fate}{}\n", line(names, event))).collect::<String>()
}

/// The writes and discards that no flush has covered, oldest first.
fn pending(events: &[Event]) -> Vec<usize> {
    // With whether it has failed: no flush covers it any more.
    let mut pending: Vec<(u32, usize, bool)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Write { medium, .. } | Event::Discard { medium, .. } | Event::Batch { medium, .. } => {
                pending.push((*medium, at, false));
            }
            Event::Settled { medium: settled, number: last } => {
                let is_in = |event: &Event| match event {
                    Event::Batch { medium, number, .. } => medium == settled && number <= last,
                    _ => false,
                };
                let upto = events[..at].iter().rposition(is_in).map_or(0, |batch| batch + 1);
                pending.retain(|(of, at, _)| of != settled || *at >= upto);
            }
            Event::WriteFailed { medium, .. } => pending.push((*medium, at, true)),
            Event::FlushFailed { medium } => {
                pending.iter_mut().filter(|(of, ..)| of == medium).for_each(|(.., failed)| *failed = true);
            }
            Event::Flush { medium } => pending.retain(|(of, _, failed)| of != medium || *failed),
            _ => {}
        }
    }
    pending.into_iter().map(|(_, at, _)| at).collect()
}

fn line(names: &Names, event: &Event) -> String {
    let named = |medium: u32, offset: u64, len: u64, bytes: Option<&[u8]>| match names.of(
        medium as usize,
        offset,
        len,
        bytes,
    ) {
        name if name.is_empty() => String::new(),
        name => format!(" ({name})"),
    };
    match event {
        Event::Write { medium, offset, bytes } => {
            let name = named(*medium, *offset, bytes.len() as u64, Some(bytes));
            format!("medium {medium}: {} bytes at {offset} written{name}", bytes.len())
        }
        Event::Discard { medium, offset, len } => {
            format!("medium {medium}: {len} bytes at {offset} discarded{}", named(*medium, *offset, *len, None))
        }
        Event::WriteFailed { medium, offset, bytes } => {
            let name = named(*medium, *offset, bytes.len() as u64, Some(bytes));
            format!("medium {medium}: a write of {} bytes at {offset} fails{name}", bytes.len())
        }
        Event::Batch { medium, number, writes, discards } => {
            let names: Vec<String> = writes
                .iter()
                .take(MOST_OF_BATCH)
                .map(|(offset, bytes)| named(*medium, *offset, bytes.len() as u64, Some(bytes)))
                .collect();
            let bytes: usize = writes.iter().map(|(_, bytes)| bytes.len()).sum();
            let discarded: u64 = discards.iter().map(|(_, len)| len).sum();
            format!(
                "medium {medium}: batch {number}: {bytes} bytes written,{} {discarded} bytes discarded",
                names.concat()
            )
        }
        Event::Settled { medium, number } => format!("medium {medium}: batch {number} is settled"),
        Event::Flush { medium } => format!("medium {medium}: flushed"),
        Event::FlushFailed { medium } => format!("medium {medium}: a flush fails"),
        Event::Store { medium, thread, offset, bytes } => {
            format!("medium {medium}: {} bytes at {offset} stored by thread {thread}", bytes.len())
        }
        Event::WriteBack { medium, thread, offset, len } => {
            format!("medium {medium}: thread {thread} writes back {len} bytes at {offset}")
        }
        Event::Fence { thread } => format!("thread {thread}: fence"),
        Event::Mark(id) => {
            let (thread, call) = (id >> 32, (*id as u32) >> 1);
            format!("thread {thread}, call {call}: {}", if id & 1 == 0 { "begins" } else { "has returned" })
        }
    }
}
