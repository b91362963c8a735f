//! Operations as text: one call a line, so that a workload is a file and a failure is a few lines to paste.
//!
//! ```text
//! line     = "" | "# comment" | call
//! call     = "create" PATH MODE            "mkdir" PATH MODE          "mkfifo" PATH MODE
//!          | "symlink" PATH TARGET         "link" PATH PATH           "unlink" PATH        "rmdir" PATH
//!          | "rename" PATH PATH            "rename-noreplace" PATH PATH                    "rename-exchange" PATH PATH
//!          | "open" @N PATH                "close" @N
//!          | "write" FILE OFFSET LEN FILL  "append" FILE LEN FILL     "truncate" FILE SIZE
//!          | "fallocate" FILE OFFSET LEN   "fallocate-keep" …         "punch" …   "zero" …   "zero-keep" …
//!          | "setxattr" FILE NAME LEN FILL "setxattr-create" …        "setxattr-replace" …
//!          | "removexattr" FILE NAME       "chmod" FILE MODE          "chown" FILE UID GID
//!          | "utimens" FILE TIME TIME      "fsync" FILE               "fdatasync" FILE
//!          | "sync"                        "idle" SECONDS             "remount"
//! FILE     = PATH | @N                     what an earlier "open @N" opened, also after its last name is gone
//! PATH     = "/" or "/a/b": no "." and "..", never through a symbolic link
//! MODE     = octal permission bits
//! FILL     = "zeros" | "#N" | "jbd2#N"     bytes made from N and their place in the file; with jbd2's magic number
//! TIME     = seconds since 1970 [ "." nine digits ]
//! numbers    are decimal, with an optional suffix K, M or G (1024-based)
//! ```
//!
//! In names, blanks and bytes that are not printable are written `%XX`.

use super::{Fallocate, File, Fill, Op, Path, Rename, SetXattr};
use ondol_env::Timestamp;
use std::fmt;
use std::str::FromStr;

/// A line that is no operation: which line (from 1) and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads a whole workload. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// The first line that is no operation.
pub fn parse(text: &str) -> Result<Vec<Op>, ParseError> {
    let lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty() && !l.trim_start().starts_with('#'));
    lines.map(|(line, l)| l.parse().map_err(|what| ParseError { line, what })).collect()
}

/// Writes a workload, one call a line, so that [`parse`] reads it back.
pub fn print(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op}\n")).collect()
}

/// Writes blanks, `%` and unprintable bytes as `%XX`.
pub fn escape(bytes: &[u8]) -> String {
    let plain = |b: u8| (b.is_ascii_graphic() && b != b'%').then_some(b as char);
    bytes.iter().map(|&b| plain(b).map_or_else(|| format!("%{b:02X}"), String::from)).collect()
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

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { path, mode } => write!(f, "create {path} {mode:04o}"),
            Self::Mkdir { path, mode } => write!(f, "mkdir {path} {mode:04o}"),
            Self::Mkfifo { path, mode } => write!(f, "mkfifo {path} {mode:04o}"),
            Self::Symlink { path, target } => write!(f, "symlink {path} {}", escape(target.as_bytes())),
            Self::Link { from, to } => write!(f, "link {from} {to}"),
            Self::Unlink { path } => write!(f, "unlink {path}"),
            Self::Rmdir { path } => write!(f, "rmdir {path}"),
            Self::Rename { from, to, how } => write!(f, "{} {from} {to}", rename_word(*how)),
            Self::Open { handle, path } => write!(f, "open @{handle} {path}"),
            Self::Close { handle } => write!(f, "close @{handle}"),
            Self::Write { file, at, len, fill } => write!(f, "write {file} {at} {len} {fill}"),
            Self::Append { file, len, fill } => write!(f, "append {file} {len} {fill}"),
            Self::Truncate { file, size } => write!(f, "truncate {file} {size}"),
            Self::Fallocate { file, how, at, len } => write!(f, "{} {file} {at} {len}", fallocate_word(*how)),
            Self::SetXattr { file, name, len, fill, how } => {
                write!(f, "{} {file} {} {len} {fill}", xattr_word(*how), escape(name.as_bytes()))
            }
            Self::RemoveXattr { file, name } => write!(f, "removexattr {file} {}", escape(name.as_bytes())),
            Self::Chmod { file, mode } => write!(f, "chmod {file} {mode:04o}"),
            Self::Chown { file, uid, gid } => write!(f, "chown {file} {uid} {gid}"),
            Self::Utimens { file, atime, mtime } => {
                write!(f, "utimens {file} {}.{:09} {}.{:09}", atime.sec, atime.nsec, mtime.sec, mtime.nsec)
            }
            Self::Fsync { file, data_only: false } => write!(f, "fsync {file}"),
            Self::Fsync { file, data_only: true } => write!(f, "fdatasync {file}"),
            Self::Sync => f.write_str("sync"),
            Self::Idle { seconds } => write!(f, "idle {seconds}"),
            Self::Remount => f.write_str("remount"),
        }
    }
}

fn rename_word(how: Rename) -> &'static str {
    match how {
        Rename::Replace => "rename",
        Rename::NoReplace => "rename-noreplace",
        Rename::Exchange => "rename-exchange",
    }
}

fn fallocate_word(how: Fallocate) -> &'static str {
    match how {
        Fallocate::Allocate => "fallocate",
        Fallocate::KeepSize => "fallocate-keep",
        Fallocate::PunchHole => "punch",
        Fallocate::ZeroRange => "zero",
        Fallocate::ZeroRangeKeepSize => "zero-keep",
    }
}

fn xattr_word(how: SetXattr) -> &'static str {
    match how {
        SetXattr::Any => "setxattr",
        SetXattr::Create => "setxattr-create",
        SetXattr::Replace => "setxattr-replace",
    }
}

/// The words of one line, taken from the left.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn word(&mut self, what: &str) -> Result<&str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn path(&mut self) -> Result<Path, String> {
        Path::new(&unescape(self.word("a path")?)?)
    }

    fn handle(&mut self) -> Result<u8, String> {
        let word = self.word("a handle")?;
        word.strip_prefix('@').and_then(|n| n.parse().ok()).ok_or_else(|| format!("no handle (@0 to @255): {word}"))
    }

    fn file(&mut self) -> Result<File, String> {
        let is_handle = self.0.clone().next().is_some_and(|w| w.starts_with('@'));
        if is_handle { self.handle().map(File::Handle) } else { self.path().map(File::Path) }
    }

    fn text(&mut self, what: &str) -> Result<String, String> {
        unescape(self.word(what)?)
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
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

    fn id(&mut self, what: &str) -> Result<u32, String> {
        let n = self.number(what)?;
        u32::try_from(n).map_err(|_| format!("{what} is too large: {n}"))
    }

    fn mode(&mut self) -> Result<u16, String> {
        let word = self.word("a mode")?;
        let mode = u16::from_str_radix(word, 8).ok().filter(|m| *m <= 0o7777);
        mode.ok_or_else(|| format!("no octal mode: {word}"))
    }

    fn fill(&mut self) -> Result<Fill, String> {
        let word = self.word("a fill")?;
        if word == "zeros" {
            return Ok(Fill::ZEROS);
        }
        let (magic, id) = word.strip_prefix("jbd2#").map_or((false, word.strip_prefix('#')), |id| (true, Some(id)));
        let id = id.and_then(|id| id.parse().ok()).filter(|id| *id > 0);
        id.map(|id| Fill { id, magic }).ok_or_else(|| format!("no fill (zeros, #N or jbd2#N): {word}"))
    }

    fn time(&mut self) -> Result<Timestamp, String> {
        let word = self.word("a time")?;
        let (sec, nsec) = word.split_once('.').unwrap_or((word, "000000000"));
        let nsec = Some(nsec).filter(|n| n.len() == 9).and_then(|n| n.parse().ok());
        match (sec.parse(), nsec) {
            (Ok(sec), Some(nsec)) => Ok(Timestamp { sec, nsec }),
            _ => Err(format!("no time (seconds, or seconds and nine digits): {word}")),
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = Words(line.split_whitespace());
        let call = words.word("a call")?.to_owned();
        for group in [parse_names, parse_contents, parse_attributes] {
            if let Some(op) = group(&call, &mut words)? {
                return words.0.next().map_or(Ok(op), |extra| Err(format!("one word too many: {extra}")));
            }
        }
        Err(format!("unknown call: {call}"))
    }
}

fn parse_names(call: &str, w: &mut Words<'_>) -> Result<Option<Op>, String> {
    let rename = |how, w: &mut Words<'_>| Ok::<_, String>(Op::Rename { from: w.path()?, to: w.path()?, how });
    Ok(Some(match call {
        "create" => Op::Create { path: w.path()?, mode: w.mode()? },
        "mkdir" => Op::Mkdir { path: w.path()?, mode: w.mode()? },
        "mkfifo" => Op::Mkfifo { path: w.path()?, mode: w.mode()? },
        "symlink" => Op::Symlink { path: w.path()?, target: w.text("a target")? },
        "link" => Op::Link { from: w.path()?, to: w.path()? },
        "unlink" => Op::Unlink { path: w.path()? },
        "rmdir" => Op::Rmdir { path: w.path()? },
        "rename" => rename(Rename::Replace, w)?,
        "rename-noreplace" => rename(Rename::NoReplace, w)?,
        "rename-exchange" => rename(Rename::Exchange, w)?,
        "open" => Op::Open { handle: w.handle()?, path: w.path()? },
        "close" => Op::Close { handle: w.handle()? },
        _ => return Ok(None),
    }))
}

fn parse_contents(call: &str, w: &mut Words<'_>) -> Result<Option<Op>, String> {
    let fallocate = |how, w: &mut Words<'_>| {
        Ok::<_, String>(Op::Fallocate { file: w.file()?, how, at: w.number("an offset")?, len: w.number("a length")? })
    };
    Ok(Some(match call {
        "write" => {
            let (file, at, len) = (w.file()?, w.number("an offset")?, w.number("a length")?);
            Op::Write { file, at, len, fill: w.fill()? }
        }
        "append" => Op::Append { file: w.file()?, len: w.number("a length")?, fill: w.fill()? },
        "truncate" => Op::Truncate { file: w.file()?, size: w.number("a size")? },
        "fallocate" => fallocate(Fallocate::Allocate, w)?,
        "fallocate-keep" => fallocate(Fallocate::KeepSize, w)?,
        "punch" => fallocate(Fallocate::PunchHole, w)?,
        "zero" => fallocate(Fallocate::ZeroRange, w)?,
        "zero-keep" => fallocate(Fallocate::ZeroRangeKeepSize, w)?,
        "fsync" => Op::Fsync { file: w.file()?, data_only: false },
        "fdatasync" => Op::Fsync { file: w.file()?, data_only: true },
        "sync" => Op::Sync,
        "idle" => Op::Idle { seconds: w.number("a number of seconds")? },
        "remount" => Op::Remount,
        _ => return Ok(None),
    }))
}

fn parse_attributes(call: &str, w: &mut Words<'_>) -> Result<Option<Op>, String> {
    let setxattr = |how, w: &mut Words<'_>| {
        let (file, name) = (w.file()?, w.text("a name")?);
        Ok::<_, String>(Op::SetXattr { file, name, len: w.number("a length")?, fill: w.fill()?, how })
    };
    Ok(Some(match call {
        "setxattr" => setxattr(SetXattr::Any, w)?,
        "setxattr-create" => setxattr(SetXattr::Create, w)?,
        "setxattr-replace" => setxattr(SetXattr::Replace, w)?,
        "removexattr" => Op::RemoveXattr { file: w.file()?, name: w.text("a name")? },
        "chmod" => Op::Chmod { file: w.file()?, mode: w.mode()? },
        "chown" => Op::Chown { file: w.file()?, uid: w.id("a user")?, gid: w.id("a group")? },
        "utimens" => Op::Utimens { file: w.file()?, atime: w.time()?, mtime: w.time()? },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(ops in crate::strategy::ops(1..40)) {
            prop_assert_eq!(parse(&print(&ops)).unwrap(), ops);
        }
    }

    #[test]
    fn suffixes_comments_and_odd_names() {
        let ops = parse("# setup\n\n  write /a%20b 4K 1M #3\nopen @2 //d//e/\n").unwrap();
        assert_eq!(print(&ops), "write /a%20b 4096 1048576 #3\nopen @2 /d/e\n");
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, what) in [
            ("sync\nfly /a", "line 2: unknown call: fly"),
            ("create /a", "line 1: a mode is missing"),
            ("create a 0644", "line 1: a path begins with '/': \"a\""),
            ("unlink /a/../b", "line 1: a path has no component '.' or '..': \"/a/../b\""),
            ("sync now", "line 1: one word too many: now"),
            ("write /a 0 1 #0", "line 1: no fill (zeros, #N or jbd2#N): #0"),
            ("truncate /a 99999999999G", "line 1: a size is no number: 99999999999G"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), what);
        }
    }
}
