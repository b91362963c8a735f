//! What goes to standard output. Names, labels and paths in it may hold anything, so only what can be shown passes; and
//! whoever reads may go away.

use ondol::{is_printable, printable};
use serde_json::Value;
use std::io::{self, Write};

/// As `println!`, by way of [`line()`].
macro_rules! say {
    ($($arg:tt)*) => { $crate::say::line(&format!($($arg)*)) };
}
pub(crate) use say;

/// Prints one line, whatever is in it.
pub(crate) fn line(text: &str) {
    // Who does not read to the end does not want the rest.
    let _ = writeln!(std::io::stdout(), "{}", printable(text.as_bytes()));
}

/// Prints text with lines of its own.
pub(crate) fn lines(text: &str) {
    text.lines().for_each(line);
}

/// As [`lines()`] of a text without an end for its last line; false when nobody reads any more.
///
/// # Errors
/// It cannot be written for another reason.
pub(crate) fn is_read(text: &str) -> io::Result<bool> {
    let text: String = text.split('\n').map(|line| printable(line.as_bytes()) + "\n").collect();
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

/// Prints a value as one line of JSON. What JSON itself lets stand and a terminal might obey is escaped, too.
pub(crate) fn json(value: &Value) {
    line(&escaped(value));
}

/// A value as one line of JSON that no terminal obeys.
pub(crate) fn escaped(value: &Value) -> String {
    let mut out = String::new();
    // Outside of strings, JSON has nothing but printable ASCII.
    for c in value.to_string().chars() {
        if is_printable(c) {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out += &format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json_with_nothing_for_a_terminal_to_obey() {
        let value = serde_json::json!({"label": "a\n\x1b[31m\x7f\u{9b}2J\u{202e}\u{e0001} 온돌 \"q\""});
        let text = escaped(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.chars().all(is_printable), "{text:?}");
        assert!(text.contains("온돌") && text.contains("\\u009b2J"), "{text}");
    }
}
