//! Operations as text: one call a line, mostly, so that a workload is a file and a failure is a few lines to paste.
//!
//! ```text
//! line     = "" | "# comment" | calls
//! calls    = call { ";" call }
//! call     = "create" PATH MODE            "mkdir" PATH MODE          "mkfifo" PATH MODE
//!          | "symlink" PATH TARGET         "link" FILE PATH           "unlink" PATH        "rmdir" PATH
//!          | "rename" PATH PATH            "rename-noreplace" …       "rename-exchange" …
//!          | "rename-whiteout" PATH PATH   "rename-whiteout-noreplace" …
//!          | "open" @N PATH                "tmpfile" @N PATH MODE     "close" @N
//!          | "write" FILE OFFSET LEN FILL  "append" FILE LEN FILL     "truncate" FILE SIZE
//!          | "fallocate" FILE OFFSET LEN   "fallocate-keep" …         "punch" …   "zero" …   "zero-keep" …
//!          | "collapse" …                  "insert" …                 "copy" FILE OFFSET FILE OFFSET LEN
//!          | "exchange" FILE OFFSET FILE OFFSET LEN                    "exchange-ends" FILE OFFSET FILE OFFSET
//!          | "map-commit" FILE OFFSET LEN STEP COUNT FILL           stores through a map, committed as one
//!          | "setxattr" FILE NAME LEN FILL "setxattr-create" …        "setxattr-replace" …
//!          | "removexattr" FILE NAME       "chmod" FILE MODE          "chown" FILE UID GID
//!          | "setacl" FILE ACL             "setacl-default" FILE ACL  "chattr" FILE FLAGS
//!          | "utimens" FILE TIME TIME      "fsync" FILE               "fdatasync" FILE
//!          | "sync"                        "idle" SECONDS             "remount"             "checkpoint"
//!          | "trim"                        "bring-home"                    "scratch" PAGES
//!          | "transaction" "{" calls "}"    all of them or none, as one; only names, "write", "truncate",
//!                                          "chmod", xattrs, and these by PATH
//! FILE     = PATH | @N                     what an earlier "open @N" opened, also after its last name is gone
//! PATH     = "/" or "/a/b": no "." and "..", never through a symbolic link
//! MODE     = octal permission bits
//! ACL      = "-" (none) | entries as "u::rwx,u:7:r-x,g::r-x,g:7:r--,m::rwx,o::---", in this order
//! FLAGS    = "-" (none) | letters of chattr: "SiadAjtDT"; flags without a letter here stay
//! FILL     = "zeros" | "#N" | "jbd2#N"     bytes made from N and their place in the file; with jbd2's magic number
//! TIME     = seconds since 1970 [ "." nine digits ]
//! numbers    are decimal, with an optional suffix K, M or G (1024-based)
//! ```
//!
//! In names, blanks, bytes that are not printable, and any of `%;{}` are written `%XX`. `checkpoint` does nothing: it
//! marks a place at which a workload says that what was synced so far must hold, and at which power may be cut.
//! `bring-home` is a checkpoint of the journal that commits nothing.

pub use super::words::escape;

use super::words::{self, Words};
use super::{Fallocate, Op, Rename, SetXattr};
use ondol_volume::Caller;
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
    let mut ops = Vec::new();
    for (line, l) in (1..).zip(text.lines()).filter(|(_, l)| !l.trim_start().starts_with('#')) {
        ops.extend(parse_line(l).map_err(|what| ParseError { line, what })?);
    }
    Ok(ops)
}

/// Writes a workload, one call a line, so that [`parse`] reads it back.
pub fn print(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op}\n")).collect()
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
            Self::Tmpfile { handle, dir, mode } => write!(f, "tmpfile @{handle} {dir} {mode:04o}"),
            Self::Open { handle, path } => write!(f, "open @{handle} {path}"),
            Self::Close { handle } => write!(f, "close @{handle}"),
            Self::Write { file, at, len, fill } => write!(f, "write {file} {at} {len} {fill}"),
            Self::WriteBack { file, at, len, fill } => write!(f, "write-back {file} {at} {len} {fill}"),
            Self::Append { file, len, fill } => write!(f, "append {file} {len} {fill}"),
            Self::Truncate { file, size } => write!(f, "truncate {file} {size}"),
            Self::Copy { from, at, to, to_at, len } => write!(f, "copy {from} {at} {to} {to_at} {len}"),
            Self::Exchange { file, at, other, other_at, len: Some(len) } => {
                write!(f, "exchange {file} {at} {other} {other_at} {len}")
            }
            Self::Exchange { file, at, other, other_at, len: None } => {
                write!(f, "exchange-ends {file} {at} {other} {other_at}")
            }
            Self::MapCommit { file, at, len, step, count, fill } => {
                write!(f, "map-commit {file} {at} {len} {step} {count} {fill}")
            }
            Self::Fallocate { file, how, at, len } => write!(f, "{} {file} {at} {len}", fallocate_word(*how)),
            Self::SetXattr { file, name, len, fill, how } => {
                write!(f, "{} {file} {} {len} {fill}", xattr_word(*how), escape(name.as_bytes()))
            }
            Self::RemoveXattr { file, name } => write!(f, "removexattr {file} {}", escape(name.as_bytes())),
            Self::SetAcl { file, default, acl } => {
                let acl = acl.as_ref().map_or("-".into(), ToString::to_string);
                write!(f, "{} {file} {acl}", if *default { "setacl-default" } else { "setacl" })
            }
            Self::Chattr { file, flags } => write!(f, "chattr {file} {flags}"),
            Self::Chmod { file, mode } => write!(f, "chmod {file} {mode:04o}"),
            Self::Chown { file, uid, gid } => write!(f, "chown {file} {uid} {gid}"),
            Self::Utimens { file, atime, mtime } => {
                write!(f, "utimens {file} {}.{:09} {}.{:09}", atime.sec, atime.nsec, mtime.sec, mtime.nsec)
            }
            Self::Read { file, at, len, kept } => {
                write!(f, "{} {file} {at} {len}", if *kept { "view" } else { "read" })
            }
            Self::Fsync { file, data_only: false } => write!(f, "fsync {file}"),
            Self::Fsync { file, data_only: true } => write!(f, "fdatasync {file}"),
            Self::Sync => f.write_str("sync"),
            Self::Trim => f.write_str("trim"),
            Self::Scratch { pages } => write!(f, "scratch {pages}"),
            Self::Idle { seconds } => write!(f, "idle {seconds}"),
            Self::BringHome => f.write_str("bring-home"),
            Self::Remount => f.write_str("remount"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Transaction(ops) => {
                let calls: Vec<String> = ops.iter().map(Self::to_string).collect();
                write!(f, "transaction {{ {} }}", calls.join(" ; "))
            }
        }
    }
}

fn rename_word(how: Rename) -> &'static str {
    match how {
        Rename::Replace => "rename",
        Rename::NoReplace => "rename-noreplace",
        Rename::Exchange => "rename-exchange",
        Rename::Whiteout { replace: true, .. } => "rename-whiteout",
        Rename::Whiteout { replace: false, .. } => "rename-whiteout-noreplace",
    }
}

fn fallocate_word(how: Fallocate) -> &'static str {
    match how {
        Fallocate::Allocate => "fallocate",
        Fallocate::KeepSize => "fallocate-keep",
        Fallocate::PunchHole => "punch",
        Fallocate::ZeroRange => "zero",
        Fallocate::ZeroRangeKeepSize => "zero-keep",
        Fallocate::CollapseRange => "collapse",
        Fallocate::InsertRange => "insert",
    }
}

fn xattr_word(how: SetXattr) -> &'static str {
    match how {
        SetXattr::Any => "setxattr",
        SetXattr::Create => "setxattr-create",
        SetXattr::Replace => "setxattr-replace",
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words = words::split(line);
        let mut words = Words(&words);
        let op = parse_call(&mut words)?;
        words.peek().map_or(Ok(op), |extra| Err(format!("one word too many: {extra}")))
    }
}

fn parse_line(line: &str) -> Result<Vec<Op>, String> {
    let words = words::split(line);
    let mut words = Words(&words);
    let ops = parse_calls(&mut words)?;
    words.peek().map_or(Ok(ops), |extra| Err(format!("one word too many: {extra}")))
}

/// Calls, separated by `;`, up to what is none.
fn parse_calls(words: &mut Words<'_>) -> Result<Vec<Op>, String> {
    let mut ops = Vec::new();
    loop {
        while words.take(";") {}
        if words.peek().is_none_or(|word| word == "}") {
            return Ok(ops);
        }
        ops.push(parse_call(words)?);
        if words.peek() != Some(";") {
            return Ok(ops);
        }
    }
}

fn parse_call(words: &mut Words<'_>) -> Result<Op, String> {
    let call = words.word("a call")?;
    if call == "transaction" {
        return parse_transaction(words);
    }
    for group in [parse_names, parse_contents, parse_attributes] {
        if let Some(op) = group(call, words)? {
            return Ok(op);
        }
    }
    Err(format!("unknown call: {call}"))
}

fn parse_transaction(words: &mut Words<'_>) -> Result<Op, String> {
    if !words.take("{") {
        return Err("a transaction's calls stand between { and }".into());
    }
    let ops = parse_calls(words)?;
    if let Some(op) = ops.iter().find(|op| !op.is_step()) {
        return Err(format!("cannot be part of a transaction: {op}"));
    }
    match words.take("}") {
        true => Ok(Op::Transaction(ops)),
        false => Err(words.peek().map_or("} is missing".into(), |extra| format!("one word too many: {extra}"))),
    }
}

fn parse_names(call: &str, w: &mut Words<'_>) -> Result<Option<Op>, String> {
    let rename = |how, w: &mut Words<'_>| Ok::<_, String>(Op::Rename { from: w.path()?, to: w.path()?, how });
    Ok(Some(match call {
        "create" => Op::Create { path: w.path()?, mode: w.mode()? },
        "mkdir" => Op::Mkdir { path: w.path()?, mode: w.mode()? },
        "mkfifo" => Op::Mkfifo { path: w.path()?, mode: w.mode()? },
        "symlink" => Op::Symlink { path: w.path()?, target: w.text("a target")? },
        "link" => Op::Link { from: w.file()?, to: w.path()? },
        "unlink" => Op::Unlink { path: w.path()? },
        "rmdir" => Op::Rmdir { path: w.path()? },
        "rename" => rename(Rename::Replace, w)?,
        "rename-noreplace" => rename(Rename::NoReplace, w)?,
        "rename-exchange" => rename(Rename::Exchange, w)?,
        "rename-whiteout" => rename(Rename::Whiteout { owner: Caller::default(), replace: true }, w)?,
        "rename-whiteout-noreplace" => rename(Rename::Whiteout { owner: Caller::default(), replace: false }, w)?,
        "tmpfile" => Op::Tmpfile { handle: w.handle()?, dir: w.path()?, mode: w.mode()? },
        "open" => Op::Open { handle: w.handle()?, path: w.path()? },
        "close" => Op::Close { handle: w.handle()? },
        _ => return Ok(None),
    }))
}

fn parse_contents(call: &str, w: &mut Words<'_>) -> Result<Option<Op>, String> {
    if let Some(how) = Fallocate::ALL.into_iter().find(|how| fallocate_word(*how) == call) {
        let (file, at, len) = (w.file()?, w.number("an offset")?, w.number("a length")?);
        return Ok(Some(Op::Fallocate { file, how, at, len }));
    }
    Ok(Some(match call {
        "write" | "write-back" => {
            let (file, at, len) = (w.file()?, w.number("an offset")?, w.number("a length")?);
            let fill = w.fill()?;
            match call {
                "write" => Op::Write { file, at, len, fill },
                _ => Op::WriteBack { file, at, len, fill },
            }
        }
        "append" => Op::Append { file: w.file()?, len: w.number("a length")?, fill: w.fill()? },
        "truncate" => Op::Truncate { file: w.file()?, size: w.number("a size")? },
        "copy" => {
            let (from, at, to) = (w.file()?, w.number("an offset")?, w.file()?);
            Op::Copy { from, at, to, to_at: w.number("an offset")?, len: w.number("a length")? }
        }
        "exchange" | "exchange-ends" => {
            let (file, at, other, other_at) = (w.file()?, w.number("an offset")?, w.file()?, w.number("an offset")?);
            let len = if call == "exchange" { Some(w.number("a length")?) } else { None };
            Op::Exchange { file, at, other, other_at, len }
        }
        "map-commit" => {
            let (file, at, len) = (w.file()?, w.number("an offset")?, w.number("a length")?);
            Op::MapCommit {
                file,
                at,
                len,
                step: w.number("a step")?,
                count: w.number("a number of stores")?,
                fill: w.fill()?,
            }
        }
        "read" | "view" => {
            let (file, at) = (w.file()?, w.number("an offset")?);
            Op::Read { file, at, len: w.number("a length")?, kept: call == "view" }
        }
        "fsync" => Op::Fsync { file: w.file()?, data_only: false },
        "fdatasync" => Op::Fsync { file: w.file()?, data_only: true },
        "sync" => Op::Sync,
        "trim" => Op::Trim,
        "scratch" => Op::Scratch { pages: w.number("a number of pages")? },
        "idle" => Op::Idle { seconds: w.number("a number of seconds")? },
        "bring-home" => Op::BringHome,
        "remount" => Op::Remount,
        "checkpoint" => Op::Checkpoint,
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
        "setacl" => Op::SetAcl { file: w.file()?, default: false, acl: w.acl()? },
        "setacl-default" => Op::SetAcl { file: w.file()?, default: true, acl: w.acl()? },
        "chattr" => Op::Chattr { file: w.file()?, flags: w.word("flags")?.parse()? },
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
    fn transactions_and_several_calls_on_a_line() {
        let text =
            "sync;create /a%3B%7B 0644 ; transaction{create /t 0644;write /t 0 100 #1; rename /t /a;}checkpoint\n";
        assert_eq!(parse(text).unwrap_err().what, "one word too many: checkpoint");
        let ops = parse(&text.replace("}check", "};check")).unwrap();
        let lines = "sync\ncreate /a%3B%7B 0644\n\
            transaction { create /t 0644 ; write /t 0 100 #1 ; rename /t /a }\ncheckpoint\n";
        assert_eq!((ops.len(), print(&ops).as_str()), (4, lines));
        assert_eq!(parse(lines).unwrap(), ops);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, what) in [
            ("sync\nfly /a", "line 2: unknown call: fly"),
            ("create /a", "line 1: a mode is missing"),
            ("create a 0644", "line 1: a path begins with '/': \"a\""),
            ("unlink /a/../b", "line 1: a path has no component '.' or '..': \"/a/../b\""),
            ("sync now", "line 1: one word too many: now"),
            ("sync }", "line 1: one word too many: }"),
            ("transaction { unlink /a", "line 1: } is missing"),
            ("transaction { unlink ; }", "line 1: a path is missing"),
            ("transaction unlink /a", "line 1: a transaction's calls stand between { and }"),
            ("transaction { truncate @1 0 }", "line 1: cannot be part of a transaction: truncate @1 0"),
            ("transaction { sync }", "line 1: cannot be part of a transaction: sync"),
            ("write /a 0 1 #0", "line 1: no fill (zeros, #N or jbd2#N): #0"),
            ("truncate /a 99999999999G", "line 1: a size is no number: 99999999999G"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), what);
        }
    }
}
