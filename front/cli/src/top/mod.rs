//! `ondol top`: what a mount does, as it does it.

mod ask;
mod pace;
mod reading;
mod screen;
mod view;

use crate::failure::{FAILED, Failure, Outcome};
use crate::log::now;
use crate::say;
use ask::Asker;
use pace::Pace;
use reading::{Reading, Report};
use screen::{Event, Screen};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use view::{Frame, Sort};

/// Show what a mount does, as it does it
///
/// Operations with their latencies, the journal, caches, NVM, stalls, and how durable everything is. Keys: q ends it, s
/// sorts by the next column, + and - change the interval. Where standard output is no terminal, reports are printed one
/// after another.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Print one report and end
    #[arg(long, conflicts_with = "reports")]
    pub(crate) once: bool,
    /// Print reports one after another, also on a terminal
    #[arg(short = 'b', long)]
    pub(crate) batch: bool,
    /// End after so many reports
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) reports: Option<u64>,
    /// Seconds that a report is about
    #[arg(short = 'd', long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// What operations are sorted by: rate, p50, p99, errors, total or name
    #[arg(short = 's', long, value_name = "COLUMN", default_value = "rate")]
    pub(crate) sort: Sort,
    /// Print each report as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A directory on a mounted volume, its image, or the process that serves it
    pub(crate) target: PathBuf,
}

/// The shortest and the longest interval.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);
/// Those that keys choose from, in milliseconds.
const STEPS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let known = seconds.filter(|time| (SHORTEST..=LONGEST).contains(time));
    known.ok_or_else(|| format!("`{text}` is no interval: write a number of seconds from 0.1 to 3600"))
}

/// Shows a mount until it ends or nobody wants to know any more.
pub(crate) fn top(args: &TopArgs) -> Outcome {
    if ask::is_child() {
        return ask::answer(&args.target);
    }
    let mut asker = Asker::start()?;
    let reports = if args.once { Some(1) } else { args.reports };
    if args.json || args.batch || args.once || !std::io::stdout().is_terminal() {
        return batch(args, &mut asker, reports);
    }
    let outcome = watch(args, &mut asker, reports, &mut Screen::open()?);
    outcome.map(|()| ExitCode::SUCCESS)
}

fn batch(args: &TopArgs, asker: &mut Asker, reports: Option<u64>) -> Outcome {
    let mut before = asker.ask()?;
    let mut left = reports;
    while left != Some(0) {
        let pace = Pace::beginning(now());
        let now = loop {
            std::thread::sleep(pace.left(args.interval, asker.asked(), now()));
            let (is_due, reading) = (pace.is_due(args.interval, now()), asker.ask()?);
            if is_due {
                break reading;
            }
        };
        if let Some(report) = Report::between(&before, &now) {
            let text = match args.json {
                true => say::escaped(&report.json()),
                false => Frame::new(&report, args.sort, args.interval).text() + if left == Some(1) { "" } else { "\n" },
            };
            let written = say::is_read(&text);
            if !written.map_err(|e| Failure::new(FAILED, format!("cannot write the report: {e}")))? {
                break;
            }
            left = left.map(|left| left - 1);
        }
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is on the screen.
struct Shown {
    sort: Sort,
    interval: Duration,
    report: Option<Report>,
}

impl Shown {
    fn draw(&self, screen: &mut Screen) -> Result<(), Failure> {
        let Some(report) = &self.report else { return Ok(()) };
        let frame = Frame::new(report, self.sort, self.interval);
        screen.draw(&frame).map_err(Failure::with(FAILED))
    }

    /// Does what a key says; false when that is to end it.
    fn heed(&mut self, event: Event, screen: &mut Screen) -> Result<bool, Failure> {
        match event {
            Event::Key(b'q' | b'Q') | Event::End => return Ok(false),
            Event::Key(b's' | b'S') => self.sort = self.sort.next(),
            Event::Key(b'+') => self.interval = longer(self.interval),
            Event::Key(b'-') => self.interval = shorter(self.interval),
            Event::Key(_) | Event::Time => return Ok(true),
            Event::Resized | Event::Continued => {}
        }
        self.draw(screen)?;
        Ok(true)
    }
}

fn longer(now: Duration) -> Duration {
    STEPS.map(Duration::from_millis).into_iter().find(|step| *step > now).unwrap_or(now)
}

fn shorter(now: Duration) -> Duration {
    STEPS.map(Duration::from_millis).into_iter().rev().find(|step| *step < now).unwrap_or(now)
}

fn watch(args: &TopArgs, asker: &mut Asker, reports: Option<u64>, screen: &mut Screen) -> Result<(), Failure> {
    const TICK: Duration = Duration::from_millis(50);
    let mut shown = Shown { sort: args.sort, interval: args.interval, report: None };
    let (mut before, mut left): (Option<(Reading, Pace)>, _) = (None, reports);
    loop {
        let is_due = before.as_ref().is_none_or(|(_, pace)| pace.is_due(shown.interval, now()));
        asker.begin()?;
        let reading = loop {
            if let Some(reading) = asker.look(Duration::ZERO)? {
                break reading;
            }
            // Answers take less than a tick.
            let event = screen.wait(Duration::from_millis(5)).map_err(Failure::with(FAILED))?;
            if event == Event::Continued {
                asker.forgive();
            }
            if !shown.heed(event, screen)? {
                return Ok(());
            }
        };
        if is_due {
            if let Some(report) = before.as_ref().and_then(|(before, _)| Report::between(before, &reading)) {
                shown.report = Some(report);
                shown.draw(screen)?;
                left = left.map(|left| left - 1);
                if left == Some(0) {
                    return Ok(());
                }
            }
            before = Some((reading, Pace::beginning(now())));
        }
        let Some((_, pace)) = &before else { continue };
        loop {
            let left = pace.left(shown.interval, asker.asked(), now());
            if left.is_zero() {
                break;
            }
            let event = screen.wait(TICK.min(left)).map_err(Failure::with(FAILED))?;
            if !shown.heed(event, screen)? {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_and_keys_go_through_them() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "0.01", "-1", "nan", "inf", "3601", "1s", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
        let (mut now, mut seen) = (Duration::from_millis(100), 1);
        while longer(now) != now {
            assert_eq!(shorter(longer(now)), now);
            (now, seen) = (longer(now), seen + 1);
        }
        assert_eq!(seen, STEPS.len());
        assert_eq!(shorter(Duration::from_millis(100)), Duration::from_millis(100));
        assert_eq!(longer(Duration::from_millis(700)), Duration::from_secs(1));
    }
}
