//! The words of a line, and what each kind of them means.

use super::{Acl, File, Fill, Path};
use ondol_env::Timestamp;

/// Writes as `%XX` what would not stay one word: blanks, unprintable bytes, `%`, and what separates calls.
pub fn escape(bytes: &[u8]) -> String {
    let plain = |b: u8| (b.is_ascii_graphic() && b != b'%' && !is_mark(b as char)).then_some(b as char);
    bytes.iter().map(|&b| plain(b).map_or_else(|| format!("%{b:02X}"), String::from)).collect()
}

/// Marks are words of their own, with or without blanks around them.
fn is_mark(c: char) -> bool {
    matches!(c, ';' | '{' | '}')
}

/// The words of a line.
pub(super) fn split(line: &str) -> Vec<&str> {
    let marks = |word| {
        let pieces = str::split_inclusive(word, is_mark);
        pieces.flat_map(|piece| match piece.char_indices().next_back() {
            Some((at, mark)) if is_mark(mark) => [&piece[..at], &piece[at..]],
            _ => [piece, ""],
        })
    };
    line.split_whitespace().flat_map(marks).filter(|word| !word.is_empty()).collect()
}

fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let hex = rest.get(..2).and_then(|h| std::str::from_utf8(h).ok());
        let byte = hex.and_then(|h| u8::from_str_radix(h, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("'%' needs two hexadecimal digits: {text}"))?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("not UTF-8: {text}"))
}

/// Words, taken from the left.
pub(super) struct Words<'a>(pub(super) &'a [&'a str]);

impl<'a> Words<'a> {
    /// The next word, which stays.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.0.first().copied()
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        match self.0.split_first() {
            Some((&word, rest)) if !word.starts_with(is_mark) => {
                self.0 = rest;
                Ok(word)
            }
            _ => Err(format!("{what} is missing")),
        }
    }

    pub(super) fn path(&mut self) -> Result<Path, String> {
        Path::new(&unescape(self.word("a path")?)?)
    }

    pub(super) fn handle(&mut self) -> Result<u8, String> {
        let word = self.word("a handle")?;
        word.strip_prefix('@').and_then(|n| n.parse().ok()).ok_or_else(|| format!("no handle (@0 to @255): {word}"))
    }

    pub(super) fn file(&mut self) -> Result<File, String> {
        let is_handle = self.peek().is_some_and(|w| w.starts_with('@'));
        if is_handle { self.handle().map(File::Handle) } else { self.path().map(File::Path) }
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String, String> {
        unescape(self.word(what)?)
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64, String> {
        let word = self.word(what)?;
        let (digits, shift) = match word.as_bytes().last() {
            Some(b'K' | b'k') => (&word[..word.len() - 1], 10),
            Some(b'M' | b'm') => (&word[..word.len() - 1], 20),
            Some(b'G' | b'g') => (&word[..word.len() - 1], 30),
            _ => (word, 0),
        };
        let number: Option<u64> = digits.parse().ok();
        number.and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| format!("{what} is no number: {word}"))
    }

    pub(super) fn id(&mut self, what: &str) -> Result<u32, String> {
        let n = self.number(what)?;
        u32::try_from(n).map_err(|_| format!("{what} is too large: {n}"))
    }

    pub(super) fn mode(&mut self) -> Result<u16, String> {
        let word = self.word("a mode")?;
        let mode = u16::from_str_radix(word, 8).ok().filter(|m| *m <= 0o7777);
        mode.ok_or_else(|| format!("no octal mode: {word}"))
    }

    pub(super) fn fill(&mut self) -> Result<Fill, String> {
        let word = self.word("a fill")?;
        if word == "zeros" {
            return Ok(Fill::ZEROS);
        }
        let (magic, id) = word.strip_prefix("jbd2#").map_or((false, word.strip_prefix('#')), |id| (true, Some(id)));
        let id = id.and_then(|id| id.parse().ok()).filter(|id| *id > 0);
        id.map(|id| Fill { id, magic }).ok_or_else(|| format!("no fill (zeros, #N or jbd2#N): {word}"))
    }

    pub(super) fn acl(&mut self) -> Result<Option<Acl>, String> {
        let word = self.word("an ACL")?;
        if word == "-" { Ok(None) } else { word.parse().map(Some) }
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, String> {
        let word = self.word("a time")?;
        let (sec, nsec) = word.split_once('.').unwrap_or((word, "000000000"));
        let nsec = Some(nsec).filter(|n| n.len() == 9).and_then(|n| n.parse().ok());
        match (sec.parse(), nsec) {
            (Ok(sec), Some(nsec)) => Ok(Timestamp { sec, nsec }),
            _ => Err(format!("no time (seconds, or seconds and nine digits): {word}")),
        }
    }
}
