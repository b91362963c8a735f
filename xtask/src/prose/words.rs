//! Documents say the field's words: a reader who knows ext4, jbd2 and NVM needs no others.
//!
//! Only prose counts, not code spans and blocks. A word alone in *emphasis* is spoken of, not used: a page says there
//! what the code calls a thing. Words with ordinary uses are found only within phrases, or not within certain ones.

use super::Document;
use pulldown_cmark::{Event, Tag, TagEnd};

struct Word {
    /// What is not to be written: words or phrases, in all their forms.
    not: &'static str,
    /// Phrases in which it may be.
    unless: &'static str,
    instead: &'static str,
}

const fn word(not: &'static str, unless: &'static str, instead: &'static str) -> Word {
    Word { not, unless, instead }
}

const WORDS: [Word; 27] = [
    word("home, homes", "home directory, home directories", "final location, in place, write back or checkpoint"),
    word("waist", "", "block device or storage backend"),
    word("newborn, newborns, fresh block, fresh blocks, fresh extent, fresh extents", "", "newly allocated block"),
    word("unseen", "", "unwritten extent, or unnoticed"),
    word("late write, late writes", "", "deferred write"),
    word("early write, early writes", "", "early writeback"),
    word("buried, swept", "", "cancelled"),
    word("seal, seals, sealed, sealing", "", "finalise checksums, or the seed of a checksum"),
    word("lent, lend, lends, lending, loan, loans, loaned", "", "pinned page or page reference"),
    word("borrowed page, borrowed pages", "", "pinned page or page reference"),
    word("scratch", "from scratch", "volatile allocation"),
    word("aside", "set aside, sets aside, setting aside", "volatile allocation"),
    word("void, voids, voided", "", "abort a reservation, or skipped entry"),
    word("lap, laps", "", "wrap count"),
    word("bell, bells", "", "condition variable or wake-up"),
    word("untold", "", "scheduling point"),
    word("crew, crews, company", "", "worker pool"),
    word("foreman", "", "supervisor"),
    word("hire, hires, hired, laid off", "", "spawn, or idle"),
    word("floor, floors", "korean floor", "baseline server"),
    word("trusted file, trusted files", "", "tracked file"),
    word("side file, side files", "", "conflict copy"),
    word("lane, lanes", "", "per-process log"),
    word("retire, retires, retired, retiring", "", "trim, trimmed"),
    word(
        "lease holder, lease holders, keeper, keepers, stills, books",
        "",
        "lease owner, lease renewal, rollback guard, lag accounting",
    ),
    word(
        "prey, hunt, hunts, hunted, hunting, scene, scenes, rot, rots, story, stories",
        "",
        "fuzz target, fuzz run, directed workload, bit flip, trace",
    ),
    word("planted, plant, plants, planting", "", "injected fault"),
];

pub(super) fn faults(document: &Document) -> Vec<String> {
    let prose = prose(document);
    let mut faults = Vec::new();
    for (at, (line, _)) in prose.iter().enumerate() {
        for Word { not, unless, instead } in &WORDS {
            if let Some(found) = phrases(not).find(|phrase| begins(&prose[at..], phrase)) {
                let may = phrases(unless).any(|phrase| {
                    let at_word = |n: &usize| phrase[*n..].starts_with(&found);
                    (0..=at.min(phrase.len() - 1)).filter(at_word).any(|n| begins(&prose[at - n..], &phrase))
                });
                if !may {
                    faults.push(document.fault(*line, &format!("\"{}\": write {instead}", found.join(" "))));
                }
            }
        }
    }
    faults
}

/// The words of each phrase of a list.
fn phrases(list: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    list.split(", ").filter(|phrase| !phrase.is_empty()).map(|phrase| phrase.split(' ').collect())
}

fn begins(prose: &[(usize, String)], phrase: &[&str]) -> bool {
    prose.len() >= phrase.len() && prose.iter().zip(phrase).all(|((_, word), wanted)| word == wanted)
}

/// The words of prose in small letters, with their lines; an empty one stands for what ends a phrase.
fn prose(document: &Document) -> Vec<(usize, String)> {
    let (mut words, mut is_code, mut is_emphasis) = (Vec::new(), false, false);
    for (line, event) in document.events() {
        match event {
            Event::Start(Tag::Emphasis) => is_emphasis = true,
            Event::End(TagEnd::Emphasis) => is_emphasis = false,
            Event::Start(Tag::Strong | Tag::Link { .. }) | Event::End(TagEnd::Strong | TagEnd::Link) => {}
            Event::SoftBreak | Event::HardBreak => {}
            Event::Text(text) if !(is_code || is_emphasis && text.chars().all(char::is_lowercase)) => {
                let is_end = |c: char| !c.is_alphanumeric() && !"-_".contains(c);
                let found = text.split(is_end).filter(|word| !word.is_empty());
                words.extend(found.map(|word| (line, word.to_lowercase())));
            }
            event => {
                match event {
                    Event::Start(Tag::CodeBlock(_)) => is_code = true,
                    Event::End(TagEnd::CodeBlock) => is_code = false,
                    _ => {}
                }
                words.push((line, String::new()));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prose::document;

    #[test]
    fn words_that_are_replaced_are_found_in_prose() {
        let text = "\
# The waist

It is laid
off, and **Home**

| a | lane's |
|---|---|
| fresh blocks | [plants](a.md) |
";
        let found = faults(&document("a.md", text));
        let wanted = [
            "a.md:1: \"waist\": write block device or storage backend",
            "a.md:3: \"laid off\": write spawn, or idle",
            "a.md:4: \"home\": write final location, in place, write back or checkpoint",
            "a.md:6: \"lane\": write per-process log",
            "a.md:8: \"fresh blocks\": write newly allocated block",
            "a.md:8: \"plants\": write injected fault",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn other_uses_are_left_alone() {
        let text = "\
The `home` of *home*, a home
directory, object-home, a fresh start. Blocks set aside
from scratch. Fresh.

Blocks

- laid
- off

```
home
```

    lane

<!-- planted -->
";
        assert_eq!(faults(&document("a.md", text)), [""; 0]);
    }

    #[test]
    fn an_allowed_phrase_covers_only_what_is_in_it() {
        let found = faults(&document("a.md", "A *home of* all: home, set aside, directory\n\nA home directory home\n"));
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
