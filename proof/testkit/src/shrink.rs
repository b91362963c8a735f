//! Making a failing sequence small.

use crate::op::Op;

/// The sequence without every call that it fails without: first in large pieces, then one by one, until nothing more
/// can be left out; then the same within its transactions. `fails` says whether a sequence still fails.
pub fn shrink(ops: Vec<Op>, fails: impl Fn(&[Op]) -> bool) -> Vec<Op> {
    let mut ops = without(ops, &fails);
    for i in 0..ops.len() {
        let Op::Transaction(steps) = ops[i].clone() else { continue };
        let with = |steps: &[Op]| {
            let mut ops = ops.clone();
            ops[i] = Op::Transaction(steps.to_vec());
            ops
        };
        let fewer = without(steps, &|steps: &[Op]| fails(&with(steps)));
        ops = with(&fewer);
    }
    ops
}

/// A sequence of anything without all that it fails without.
pub(crate) fn without<T: Clone>(mut ops: Vec<T>, fails: &impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut piece = ops.len().div_ceil(2).max(1);
    loop {
        let before = ops.len();
        let mut at = ops.len();
        // From the end: late calls depend on early ones.
        while at > 0 {
            let from = at.saturating_sub(piece);
            let rest: Vec<T> = ops[..from].iter().chain(&ops[at..]).cloned().collect();
            if rest.len() < ops.len() && fails(&rest) {
                ops = rest;
            }
            at = from.min(ops.len());
        }
        if piece == 1 && ops.len() == before {
            return ops;
        }
        piece = if piece == 1 { 1 } else { piece.div_ceil(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::text;

    #[test]
    fn only_what_is_needed_remains() {
        let ops =
            text::parse("create /a 0644\nsync\nunlink /b\nsync\ncreate /b 0644\nsync\nrmdir /c\nunlink /a").unwrap();
        let fails = |ops: &[Op]| {
            let has = |line: &str| ops.iter().any(|op| op.to_string() == line);
            has("create /a 0644") && has("rmdir /c")
        };
        assert_eq!(text::print(&shrink(ops, fails)), "create /a 0644\nrmdir /c\n");
    }

    #[test]
    fn transactions_lose_what_is_not_needed_too() {
        let ops = text::parse("sync\ntransaction { create /a 0644 ; unlink /b ; rmdir /c }\nsync").unwrap();
        let fails = |ops: &[Op]| text::print(ops).contains("unlink /b");
        assert_eq!(text::print(&shrink(ops, fails)), "transaction { unlink /b }\n");
    }
}
