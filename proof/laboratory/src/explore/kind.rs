//! What a violation is, apart from where it was seen: many states show one mistake.

/// What is wrong in words without numbers, paths and bytes: the first line, and what differs from the state that comes
/// nearest.
pub(super) fn of(what: &str) -> String {
    let mut lines = what.lines();
    let first = plain(lines.next().unwrap_or_default());
    // Groups of lines that are further in, each below a line of its own; without such a line they are one group.
    let mut groups: Vec<Vec<String>> = Vec::new();
    for line in lines {
        match line.strip_prefix("    ") {
            Some(_) if !groups.is_empty() => groups.last_mut().expect("there is one").push(plain(line)),
            None if is_heading(line) => groups.push(Vec::new()),
            _ if groups.is_empty() => groups.push(vec![plain(line)]),
            _ => groups.last_mut().expect("there is one").push(plain(line)),
        }
    }
    let mut nearest = groups.into_iter().min_by_key(Vec::len).unwrap_or_default();
    nearest.sort();
    nearest.dedup();
    [vec![first], nearest].concat().join("\n")
}

/// `after 3 calls:`, as contracts say it of each state that might have been.
fn is_heading(line: &str) -> bool {
    line.trim_start().starts_with("after ") && line.ends_with("calls:")
}

/// Words only: `#` for numbers, `/` for paths.
fn plain(line: &str) -> String {
    let word = |word: &str| match word {
        word if word.starts_with('/') => "/".to_owned(),
        word => {
            let mut plain = String::new();
            for c in word.chars() {
                match c {
                    c if c.is_ascii_digit() && plain.ends_with('#') => {}
                    c if c.is_ascii_digit() => plain.push('#'),
                    c => plain.push(c),
                }
            }
            plain
        }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn one_mistake_seen_at_two_places_is_one_kind_and_two_mistakes_are_two() {
        let lost = |calls: u32, file: &str, bytes: u32| {
            format!(
                "the recovered volume is not the state after {calls} to {} calls\n  after {calls} calls:\n    {file}: \
                 missing (Regular, {bytes} bytes)\n    /x: link count is 1, expected 2\n  after {} calls:\n    \
                 {file}: missing (Regular, 9 bytes)",
                calls + 1,
                calls + 1
            )
        };
        assert_eq!(of(&lost(3, "/a", 100)), of(&lost(12, "/d/c", 5000)));
        let stale = "the recovered volume is not the state after 3 to 4 calls\n  after 3 calls:\n    /a: byte 7 \
                     cannot be there: zeros";
        assert_ne!(of(&lost(3, "/a", 100)), of(stale));
        let found = |what: &str| format!("after recovery: our check finds\n  {what}");
        assert_eq!(of(&found("block 71 is in use twice")), of(&found("block 5 is in use twice")));
        assert_ne!(of(&found("block 71 is in use twice")), of(&found("inode 12 has 2 links, not 1")));
    }
}
