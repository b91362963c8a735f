//! Bytes of names and labels as text to be shown. Whoever chose them may have meant the reader's terminal or log.

/// A message as one printable line, without the numbers that Rust adds to the operating system's reasons, as in
/// `(os error 2)`.
pub fn line(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    let mut parts = message.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    let message = parts.fold(first, |said, part| match part.split_once(')') {
        Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => said + rest,
        _ => said + " (os error " + part,
    });
    printable(message.as_bytes())
}

/// `bytes` on one line, whatever they are: printable characters of UTF-8 as they are, everything else as e2fsprogs has
/// it, `^[` for the byte 0x1b, `^?` for 0x7f, `M-` before what has the high bit. Text that has passed here once passes
/// unchanged.
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_printable(c) {
                out.push(c);
            } else {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(byte, &mut out));
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(byte, &mut out));
    }
    out
}

/// Whether a character can be shown as it is: it has a shape, and changes neither the terminal nor the order of what is
/// around it.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Behind a letter, Debug escapes what is not printable, and not what combines with the letter.
    let pair: String = ['a', c].iter().collect();
    pair.escape_debug().nth(1) == Some(c)
}

fn escape(byte: u8, out: &mut String) {
    if byte >= 0x80 {
        out.push_str("M-");
    }
    match byte & 0x7f {
        low @ 0..0x20 => out.extend(['^', char::from(low + 0x40)]),
        0x7f => out.push_str("^?"),
        low => out.push(char::from(low)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_printable_is_shown_as_e2fsprogs_does() {
        for (bytes, text) in [
            (&b"plain 'name' \\ \""[..], "plain 'name' \\ \""),
            (b"\x1b[31mred\x07", "^[[31mred^G"),
            (b"two\nlines\r\t\0", "two^Jlines^M^I^@"),
            (b"\x7f\x80\x9b\xff\xe9", "^?M-^@M-^[M-^?M-i"),
            ("온돌 é e\u{301} 🔥".as_bytes(), "온돌 é e\u{301} 🔥"),
            // CSI as one character, an override of the writing direction, the end of a line.
            ("\u{9b}2J".as_bytes(), "M-BM-^[2J"),
            ("\u{202e}gpj.exe".as_bytes(), "M-bM-^@M-.gpj.exe"),
            ("\u{2028}".as_bytes(), "M-bM-^@M-("),
        ] {
            assert_eq!(printable(bytes), text);
            assert_eq!(printable(text.as_bytes()), text, "twice is once");
        }
    }

    #[test]
    fn whatever_the_bytes_are_the_text_is_one_line_without_controls() {
        for a in 0..=255 {
            for b in 0..=255 {
                let text = printable(&[b'x', a, b, 0xe2, a]);
                assert!(!text.chars().any(char::is_control), "{a} {b}: {text:?}");
            }
        }
    }
}
