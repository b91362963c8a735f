//! Which states of a cut are built.

use super::Limits;
use ondol_env::{Env, Fixed};
use ondol_power::{Cut, Item, Keep};
use std::ops::Range;

/// Calls `state` for the states of `cut` that `limits` ask for; ends early when it says `false`. `newest` are the items that
/// the last event made or changed: a state in which nothing of that is there belongs to an earlier cut. An empty
/// range asks for all states. Returns whether these are all there are, torn ones left out.
pub(super) fn states(
    cut: &Cut<'_>,
    newest: Range<usize>,
    limits: &Limits,
    random: &Fixed,
    state: &mut dyn FnMut(Vec<Keep>) -> bool,
) -> bool {
    let items = cut.items();
    let is_new = |keep: &[Keep]| newest.is_empty() || newest.clone().any(|i| items[i].has_newest(&keep[i]));
    if let Some(count) = few(items, limits, true) {
        let _all = (0..count).all(|n| {
            let keep = numbered(items, n, true);
            !is_new(&keep) || state(keep)
        });
        return true;
    }
    let untorn = few(items, limits, false);
    let go_on = match untorn {
        Some(count) => (0..count).all(|n| {
            let keep = numbered(items, n, false);
            !is_new(&keep) || state(keep)
        }),
        None => state(vec![Keep::All; items.len()]),
    };
    let _go_on =
        go_on && sampled(items, newest.clone(), limits, random, state) && torn(items, newest, limits, random, state);
    untorn.is_some()
}

/// How many combinations there are of what they can be, torn or not, if these are few.
fn few(items: &[Item<'_>], limits: &Limits, torn: bool) -> Option<usize> {
    let ways = |item: &Item<'_>| if torn { item.all_choices() } else { Some(item.choices()) };
    items.iter().try_fold(1usize, |n, item| n.checked_mul(ways(item)?).filter(|n| *n <= limits.all_of))
}

/// The extremes of what has gathered before a barrier, or when a promise was made: nothing, each alone, all but each, all.
pub(super) fn extremes(cut: &Cut<'_>, limits: &Limits, state: &mut dyn FnMut(Vec<Keep>) -> bool) {
    let n = cut.items().len();
    let all_were_built = few(cut.items(), limits, false).is_some();
    if n == 0 || all_were_built || !(state(vec![Keep::None; n]) && state(vec![Keep::All; n])) {
        return;
    }
    // Of thousands of lines a regular choice: each alone would be quadratic in time.
    for i in (0..n).step_by(n.div_ceil(limits.extremes.max(1))) {
        let (mut alone, mut without) = (vec![Keep::None; n], vec![Keep::All; n]);
        (alone[i], without[i]) = (Keep::All, Keep::None);
        if !(state(alone) && state(without)) {
            return;
        }
    }
}

/// The `n`-th combination of what they can be, torn or not.
fn numbered(items: &[Item<'_>], mut n: usize, torn: bool) -> Vec<Keep> {
    let choice = |item: &Item<'_>| {
        let count = if torn { item.all_choices().unwrap_or(1) } else { item.choices() };
        let keep = if torn { item.any_choice(n % count) } else { item.choice(n % count) };
        n /= count;
        keep
    };
    items.iter().map(choice).collect()
}

fn sampled(
    items: &[Item<'_>],
    newest: Range<usize>,
    limits: &Limits,
    random: &Fixed,
    state: &mut dyn FnMut(Vec<Keep>) -> bool,
) -> bool {
    (0..limits.samples).all(|_| {
        let mut keep: Vec<Keep> = items.iter().map(|item| any(item, random)).collect();
        if !newest.is_empty() {
            keep[newest.start + below(random, newest.len())] = Keep::All;
        }
        state(keep)
    })
}

/// The newest item in parts, the others all there or all lost.
fn torn(
    items: &[Item<'_>],
    newest: Range<usize>,
    limits: &Limits,
    random: &Fixed,
    state: &mut dyn FnMut(Vec<Keep>) -> bool,
) -> bool {
    let Some(at) = newest.clone().last() else { return true };
    let (item, parts) = (&items[at], items[at].parts());
    if parts < 2 {
        return true;
    }
    let others = |i: u32, part: Keep| {
        let mut keep = vec![if i & 1 == 0 { Keep::All } else { Keep::None }; items.len()];
        keep[at] = part;
        keep
    };
    // Two kinds of neighbours for each way to be torn.
    if item.choices() == 2 && parts < 32 && 2 << parts <= limits.torn {
        return (0..2 << parts).all(|i: u32| state(others(i, item.torn(|part| (i >> (part + 1) & 1) as usize))));
    }
    (0..limits.torn).all(|i| {
        let (edge, most) = (1 + below(random, parts - 1), item.choices() - 1);
        let part = item.torn(|part| match i % 3 {
            0 => {
                if part < edge {
                    most
                } else {
                    most - 1
                }
            }
            1 => {
                if part >= edge {
                    most
                } else {
                    most - 1
                }
            }
            _ => below(random, most + 1),
        });
        state(others(i, part))
    })
}

fn any(item: &Item<'_>, random: &Fixed) -> Keep {
    match below(random, 5) {
        0 | 1 => Keep::None,
        2 => Keep::All,
        3 => item.choice(below(random, item.choices())),
        _ => item.torn(|_| below(random, item.choices())),
    }
}

fn below(random: &Fixed, n: usize) -> usize {
    random.random_u32() as usize % n.max(1)
}
