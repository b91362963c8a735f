//! Invariants of what is in memory, as a function.

use crate::format::shard_of;
use crate::shared::Core;
use crate::tree::{Life, Tree};
use ondol_env::sync::atomic::Ordering::SeqCst;
use std::collections::{BTreeMap, BTreeSet};

/// What does not hold. Nobody uses the buffer meanwhile.
pub(crate) fn check(core: &Core) -> Vec<String> {
    let mut faults = Vec::new();
    let mut live: BTreeMap<u32, u64> = BTreeMap::new();
    let files = core.files.lock().all();
    for file in &files {
        let (size, last) = (file.whole.lock().size, file.last.load(SeqCst));
        let mut fault = |what: String| faults.push(format!("{}: {what}", file.identity));
        for (number, shard) in file.shards().enumerate() {
            let tree = shard.read();
            if tree.nodes.keys().any(|lbn| shard_of(*lbn, core.area.header.stripe()) != number) {
                fault(format!("shard {number} has a block of another"));
            }
            check_shard(core.area.block_size(), &tree, size, last, &mut fault);
            for s in tree.nodes.values().flat_map(|node| &node.segments) {
                *live.entry(s.block).or_default() += u64::from(s.len());
            }
        }
        let whole = file.whole.lock();
        for control in &whole.controls {
            *live.entry(control.block).or_default() += 1;
        }
        if whole.synced > last || whole.home_end() > whole.size {
            fault(format!("synced {} of {last}, home {} of {}", whole.synced, whole.home_len, whole.size));
        }
    }
    let open: BTreeSet<u32> =
        core.open.iter().chain([&core.compactor]).filter_map(|open| open.lock().block()).collect();
    let free = core.space.not_held();
    let distinct: BTreeSet<u32> = free.iter().copied().collect();
    if distinct.len() != free.len() || free.len() as u64 != u64::from(core.space.available()) {
        faults.push(format!(
            "{} free blocks, {} distinct, {} counted",
            free.len(),
            distinct.len(),
            core.space.available()
        ));
    }
    for (block, (held, is_open)) in (0..).zip(core.space.all_held()) {
        let expected = live.get(&block).copied().unwrap_or(0);
        let is_free = distinct.contains(&block);
        if held != expected || is_open != open.contains(&block) || is_free == (held > 0 || is_open) {
            faults.push(format!("block {block} holds {expected}, counted {held}, open {is_open}, free {is_free}"));
        }
    }
    faults
}

/// One shard of a file of so many bytes, after so many operations.
fn check_shard(block_size: u64, tree: &Tree, size: u64, last: u64, fault: &mut dyn FnMut(String)) {
    for (lbn, node) in &tree.nodes {
        let inside = |end: u32| u64::from(end) <= block_size;
        let sorted = node.segments.windows(2).all(|s| s[0].end <= s[1].start);
        if !sorted || node.segments.iter().any(|s| s.start >= s.end || !inside(s.end)) {
            fault(format!("segments of block {lbn} overlap or are empty: {:?}", node.segments));
        }
        let end = node.segments.last().map_or(0, |s| lbn * block_size + u64::from(s.end));
        if end > size {
            fault(format!("block {lbn} ends at {end}, the file at {size}"));
        }
        if !node.phase.is_sound() {
            fault(format!("block {lbn} has the phase {:?}", node.phase));
        }
        if node.segments.iter().any(|s| s.sequence > last) {
            fault(format!("block {lbn} has bytes of an operation that was not yet"));
        }
    }
    if tree.life == Life::Released {
        fault("it is released and has a slot".into());
    }
}
