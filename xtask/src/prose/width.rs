//! Documents are wrapped evenly: a line of prose is at most 140 characters wide, unless it cannot be broken there.

use super::Document;

const WIDTH: usize = 140;

pub(super) fn faults(document: &Document) -> Vec<String> {
    let what = format!("more than {WIDTH} characters: break the line");
    wide(&document.text).into_iter().map(|line| document.fault(line, &what)).collect()
}

/// The numbers of lines that are too wide. Tables, headings and code are as they have to be.
fn wide(text: &str) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let words = line.trim_start();
        if words.starts_with("```") {
            is_code = !is_code;
        }
        let is_prose = !is_code && !words.starts_with(['|', '#', '<']) && !words.starts_with("```");
        if is_prose && line.chars().count() > WIDTH && breaks_before(line) {
            found.push(n + 1);
        }
    }
    found
}

/// Whether there is a place to break a line, not in code and not behind its mark, before it is too wide.
fn breaks_before(line: &str) -> bool {
    let is_mark = |c: char| c.is_ascii_digit() || " -*.>".contains(c);
    let indent = line.len() - line.trim_start_matches(is_mark).len();
    let mut in_code = false;
    line.chars().enumerate().skip(indent).take(WIDTH.saturating_sub(indent)).any(|(_, c)| {
        in_code ^= c == '`';
        c == ' ' && !in_code
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_narrow() {
        let (word, code) = ("word ".repeat(29), format!("`{}`", "code ".repeat(30)));
        let text = format!("# {word}\n\n{word}\n```sh\n{word}\n```\n| {word}|\n- {code}\n1. {code}\n- a {code}\n");
        assert_eq!(wide(&text), [3, 10]);
    }
}
