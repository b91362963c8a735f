//! The terminal: single keys, and a page that is drawn over itself.

use super::view::Frame;
use crate::failure::{FAILED, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use unicode_width::UnicodeWidthChar;

/// A page of its own, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
/// What is left of the line, and of the page.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";
const REVERSE: &str = "\x1b[7m";
const PLAIN: &str = "\x1b[m";

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(u8),
    Time,
    Resized,
    /// A signal, or nobody is there any more.
    End,
}

/// The terminal, which is as before when this is dropped.
pub(super) struct Screen {
    /// As keys were before; none where standard input is no terminal.
    before: Option<Termios>,
    /// The terminal obeys nothing.
    dumb: bool,
    ended: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let fail = |e: io::Error| Failure::new(FAILED, format!("the terminal: {e}"));
        let (ended, resized) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(fail)?;
        }
        signal_hook::flag::register(SIGWINCH, Arc::clone(&resized)).map_err(fail)?;
        let name = std::env::var("TERM").unwrap_or_default();
        let mut screen = Self { before: None, dumb: matches!(name.as_str(), "" | "dumb"), ended, resized };
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let before = tcgetattr(&stdin).map_err(|e| fail(e.into()))?;
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            tcsetattr(&stdin, OptionalActions::Now, &single).map_err(|e| fail(e.into()))?;
            screen.before = Some(before);
        }
        if !screen.dumb {
            put(ENTER).map_err(fail)?;
        }
        Ok(screen)
    }

    /// Waits for a key, and for so long at most.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<Event> {
        let stdin = io::stdin();
        let limit = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) };
        let mut fds: Vec<PollFd<'_>> = self.before.iter().map(|_| PollFd::new(&stdin, PollFlags::IN)).collect();
        let ready = match poll(&mut fds, Some(&limit)) {
            Ok(n) => n > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(e) => return Err(e.into()),
        };
        if self.ended.load(Ordering::Relaxed) {
            return Ok(Event::End);
        }
        if self.resized.swap(false, Ordering::Relaxed) {
            return Ok(Event::Resized);
        }
        if !ready {
            return Ok(Event::Time);
        }
        let mut key = [0];
        match rustix::io::read(&stdin, &mut key) {
            Ok(1) => Ok(Event::Key(key[0])),
            Ok(_) => Ok(Event::End),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Event::Time),
            Err(_) => Ok(Event::End),
        }
    }

    /// Shows a report in place of the last one; on a terminal that obeys nothing, below it.
    pub(super) fn draw(&mut self, frame: &Frame) -> io::Result<()> {
        if self.dumb {
            return put(&(frame.text() + "\n\n"));
        }
        let (columns, rows) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (usize::from(size.ws_col), usize::from(size.ws_row)),
            _ => (80, 24),
        };
        put(&page(frame, columns, rows))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do where a terminal is gone.
        if !self.dumb {
            let _ = put(LEAVE);
        }
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A report on a page of so many columns and rows: long parts go on in further lines, and what does not fit below is left out.
fn page(frame: &Frame, columns: usize, rows: usize) -> String {
    const INDENT: usize = 11;
    let mut lines: Vec<(bool, String)> = vec![(true, frame.title.clone())];
    for part in &frame.parts {
        lines.extend(wrapped(part, columns, INDENT).into_iter().map(|line| (false, line)));
    }
    lines.push((false, String::new()));
    lines.push((true, frame.heads.clone()));
    lines.extend(frame.rows.iter().map(|row| (false, row.clone())));
    let lines: Vec<String> = lines
        .iter()
        .take(rows)
        .map(|(title, line)| {
            let text = cut(line, columns);
            match title {
                true => format!("{REVERSE}{text}{}{PLAIN}{CLEAR_LINE}", " ".repeat(columns - width(text))),
                false => format!("{text}{CLEAR_LINE}"),
            }
        })
        .collect();
    // A line end behind the last row would move everything up.
    format!("{HOME}{}{CLEAR_REST}", lines.join("\n"))
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// As much of a line as there is room for.
fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    end.map_or(text, |(at, _)| text.get(..at).unwrap_or(text))
}

/// A text in lines of words; all but the first begin with so many spaces.
fn wrapped(text: &str, columns: usize, indent: usize) -> Vec<String> {
    if width(text) <= columns || columns <= 2 * indent {
        return vec![text.to_owned()];
    }
    let (name, rest) = text.split_at_checked(indent).unwrap_or((text, ""));
    let (mut lines, mut line) = (Vec::new(), name.to_owned());
    let mut is_begun = false;
    for word in rest.split(' ') {
        if is_begun && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            is_begun = false;
        }
        if std::mem::replace(&mut is_begun, true) {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_size_of_the_terminal() {
        let frame = Frame {
            title: "온돌 on /mnt".into(),
            parts: vec!["durability one two three four five six seven eight".into(), "stalls     none".into()],
            heads: "operation".into(),
            rows: (0..40).map(|n| format!("row {n}")).collect(),
        };
        for (columns, rows) in [(80, 24), (30, 10), (23, 3), (5, 50), (1, 1)] {
            let page = page(&frame, columns, rows);
            let plain =
                [HOME, CLEAR_LINE, CLEAR_REST, REVERSE, PLAIN].iter().fold(page, |text, code| text.replace(code, ""));
            let lines: Vec<&str> = plain.split('\n').collect();
            assert!(
                lines.len() <= rows && lines.iter().all(|line| width(line) <= columns),
                "{columns} × {rows}: {plain}"
            );
        }
        assert_eq!(cut("온돌", 3), "온");
        let lines = wrapped(&frame.parts[0], 26, 11);
        assert_eq!(lines, ["durability one two three", "           four five six", "           seven eight"]);
    }
}
