//! Finding fragments in a data block, whatever it holds.

use crate::area::Area;
use crate::format::{FRAGMENT_BYTES, Fragment, LINE, is_data};
use crate::fragments::footprint;

/// A fragment in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) fragment: Fragment,
    pub(crate) payload_at: u32,
    /// Its payload is what was written.
    pub(crate) is_whole: bool,
}

/// What a block has.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// Where fragments cannot be read although later operations prove that they were durable.
    pub(crate) lost: Vec<u32>,
}

/// Fragments of one life of the block, which was filled at least so far, or of all its lives. They lie one behind the
/// other; where one cannot be read, the next may begin at any line.
pub(crate) fn fragments(area: &Area, block: u32, bytes: &[u8], life: Option<(u32, u32)>) -> Scan {
    let mut scan = Scan::default();
    // Unreadable places with how many fragments were found before.
    let mut gaps: Vec<(u32, usize)> = Vec::new();
    let mut at = 0;
    while at + FRAGMENT_BYTES as usize <= bytes.len() {
        let payload_at = at + FRAGMENT_BYTES as usize;
        let head = bytes[at..payload_at].try_into().unwrap_or([0; FRAGMENT_BYTES as usize]);
        let fragment = area.seal.decode_fragment(block, &head, area.header.block_size);
        let fragment = fragment.filter(|f| life.is_none_or(|(life, _)| f.life == life));
        let payload = fragment.and_then(|f| Some((f, bytes.get(payload_at..payload_at + f.len as usize)?)));
        if let Some((fragment, payload)) = payload {
            let is_whole = is_data(payload, fragment.data);
            scan.found.push(Found { fragment, payload_at: payload_at as u32, is_whole });
            at += footprint(fragment.len.into()) as usize;
            continue;
        }
        if gaps.last().is_none_or(|(_, before)| *before < scan.found.len()) {
            gaps.push((at as u32, scan.found.len()));
        }
        at += LINE as usize;
    }
    if let Some((_, fill)) = life {
        let operation = |f: &Found| (f.fragment.owner, f.fragment.sequence);
        // Operations are fenced one after the other: the first fragment of one proves all before it, and so does a
        // second operation.
        let is_proven = |before: usize| {
            let behind = scan.found.get(before..).unwrap_or_default();
            let two = behind.windows(2).any(|two| operation(&two[0]) != operation(&two[1]));
            two || behind.iter().any(|f| f.fragment.part == 0)
        };
        scan.lost = gaps.iter().filter(|(at, before)| *at < fill || is_proven(*before)).map(|(at, _)| *at).collect();
    }
    scan
}
