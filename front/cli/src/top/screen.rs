//! The terminal: single keys, and a page that is drawn over itself.

use super::view::Frame;
use crate::failure::{FAILED, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, raise};
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

/// What ^C, ^Z and ^\ send to who takes keys one by one.
const CTRL_C: u8 = 3;
const CTRL_Z: u8 = 26;
const CTRL_BACKSLASH: u8 = 28;

/// How long whoever is to end may take: a terminal that takes nothing holds up who writes to it.
const GRACE: Duration = Duration::from_secs(1);

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(u8),
    Time,
    Resized,
    /// The program was stopped, and goes on.
    Continued,
    /// A key or signal that ends it, or nobody is there any more.
    End,
}

/// What signals have said.
#[derive(Default)]
struct Told {
    ended: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    /// It is to stop.
    stopped: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
}

impl Told {
    fn by_signals() -> io::Result<Self> {
        let told = Self::default();
        for (signal, flag) in [(SIGWINCH, &told.resized), (SIGTSTP, &told.stopped), (SIGCONT, &told.continued)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
        Ok(told)
    }

    /// Has signals end it. If it has not ended soon afterwards, keys become what they were and the signal does what it
    /// does to anybody.
    fn end_by_signals(&self, keys: Option<Termios>) -> io::Result<()> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
        let ended = Arc::clone(&self.ended);
        let listen = move || {
            if let Some(signal) = signals.forever().next() {
                ended.store(true, Ordering::Relaxed);
                std::thread::sleep(GRACE);
                if let Some(keys) = &keys {
                    let _ = tcsetattr(io::stdin(), OptionalActions::Now, keys);
                }
                let _ = emulate_default_handler(signal);
            }
        };
        std::thread::Builder::new().name("ondol-signals".into()).spawn(listen).map(drop)
    }
}

/// Keys as they were before, and one by one.
struct Keys {
    before: Termios,
    single: Termios,
}

/// The terminal, which is as before when this is dropped.
pub(super) struct Screen {
    /// None where standard input is no terminal.
    keys: Option<Keys>,
    /// The terminal obeys nothing.
    dumb: bool,
    told: Told,
}

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        let fail = |e: io::Error| Failure::new(FAILED, format!("the terminal: {e}"));
        let told = Told::by_signals().map_err(fail)?;
        let name = std::env::var("TERM").unwrap_or_default();
        let mut screen = Self { keys: None, dumb: matches!(name.as_str(), "" | "dumb"), told };
        if io::stdin().is_terminal() {
            let before = tcgetattr(io::stdin()).map_err(|e| fail(e.into()))?;
            let mut single = before.clone();
            single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            // ^S would hold up what is drawn.
            single.input_modes.remove(InputModes::IXON);
            screen.keys = Some(Keys { before, single });
        }
        screen.told.end_by_signals(screen.keys.as_ref().map(|keys| keys.before.clone())).map_err(fail)?;
        screen.enter().map_err(fail)?;
        Ok(screen)
    }

    /// Takes the terminal. Who is in the background is stopped here until it is not.
    fn enter(&self) -> io::Result<()> {
        if let Some(keys) = &self.keys {
            tcsetattr(io::stdin(), OptionalActions::Now, &keys.single)?;
        }
        if self.dumb { Ok(()) } else { put(ENTER) }
    }

    /// Gives it back as it was.
    fn leave(&self) {
        // Nothing is left to do where a terminal is gone.
        if !self.dumb {
            let _ = put(LEAVE);
        }
        if let Some(keys) = &self.keys {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &keys.before);
        }
    }

    /// Waits for a key, and for so long at most.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<Event> {
        let stdin = io::stdin();
        let limit = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) };
        let mut fds: Vec<PollFd<'_>> = self.keys.iter().map(|_| PollFd::new(&stdin, PollFlags::IN)).collect();
        let ready = match poll(&mut fds, Some(&limit)) {
            Ok(n) => n > 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(e) => return Err(e.into()),
        };
        if let Some(event) = self.signalled()? {
            return Ok(event);
        }
        if !ready {
            return Ok(Event::Time);
        }
        let mut key = [0];
        match rustix::io::read(&stdin, &mut key) {
            Ok(1) => pressed(key[0]),
            Ok(_) => Ok(Event::End),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Event::Time),
            Err(_) => Ok(Event::End),
        }
    }

    /// What a signal has said since the last time.
    fn signalled(&self) -> io::Result<Option<Event>> {
        let is = |flag: &AtomicBool| flag.swap(false, Ordering::Relaxed);
        if self.told.ended.load(Ordering::Relaxed) {
            return Ok(Some(Event::End));
        }
        let stopped = is(&self.told.stopped);
        if stopped {
            self.leave();
            // Its default action is that of SIGTSTP: to stop where a shell is there to go on.
            raise(SIGTTOU)?;
        }
        if is(&self.told.continued) || stopped {
            self.enter()?;
            return Ok(Some(Event::Continued));
        }
        Ok(is(&self.told.resized).then_some(Event::Resized))
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
        self.leave();
    }
}

/// What a key does, where the terminal itself would have sent a signal to the whole job.
fn pressed(key: u8) -> io::Result<Event> {
    match key {
        CTRL_C | CTRL_BACKSLASH => Ok(Event::End),
        CTRL_Z => {
            kill_current_process_group(Signal::TSTP)?;
            Ok(Event::Time)
        }
        key => Ok(Event::Key(key)),
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A report on a page of so many columns and rows: long parts go on in further lines, and what does not fit below is
/// left out.
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
            let rest = columns - width(text);
            // Behind a full line the cursor still is on its last cell, which would be cleared.
            match (title, rest) {
                (true, _) => format!("{REVERSE}{text}{}{PLAIN}", " ".repeat(rest)),
                (false, 0) => text.to_owned(),
                (false, _) => format!("{text}{CLEAR_LINE}"),
            }
        })
        .collect();
    // A line end behind the last row would move everything up.
    let below = if lines.len() < rows { format!("\n{CLEAR_REST}") } else { String::new() };
    format!("{HOME}{}{below}", lines.join("\n"))
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

    /// What a terminal of so many columns and rows shows of a text, on which there was something before. It goes to the
    /// next line only when a character comes behind a full one.
    fn shown(text: &str, columns: usize, rows: usize) -> Vec<String> {
        let mut cells = vec![vec!['#'; columns]; rows];
        let (mut row, mut column, mut rest) = (0, 0, text);
        while let Some(c) = rest.chars().next() {
            let codes = [HOME, CLEAR_LINE, CLEAR_REST, REVERSE, PLAIN];
            if let Some(code) = codes.into_iter().find(|code| rest.starts_with(*code)) {
                match code {
                    HOME => (row, column) = (0, 0),
                    CLEAR_LINE | CLEAR_REST => cells[row][column.min(columns - 1)..].fill(' '),
                    _ => {}
                }
                if code == CLEAR_REST {
                    cells[row + 1..].iter_mut().for_each(|line| line.fill(' '));
                }
                rest = &rest[code.len()..];
                continue;
            }
            rest = &rest[c.len_utf8()..];
            if c == '\n' {
                (row, column) = (row + 1, 0);
                continue;
            }
            cells[row][column] = c;
            column += 1;
        }
        cells.iter().map(|line| line.iter().collect()).collect()
    }

    #[test]
    fn full_lines_keep_their_last_cell_and_nothing_old_is_left() {
        let frame = Frame {
            title: "title".into(),
            parts: vec!["0123456789".into(), "01234".into()],
            heads: "heads".into(),
            rows: vec!["abcdefghijkl".into()],
        };
        let all = ["title     ", "0123456789", "01234     ", "          ", "heads     ", "abcdefghij", "          "];
        for rows in 1..=all.len() {
            assert_eq!(shown(&page(&frame, 10, rows), 10, rows), all[..rows], "{rows}");
        }
    }

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
