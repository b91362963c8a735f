//! How far something is that takes long, on a terminal: a line on standard error that goes when it is done. Elsewhere
//! nothing.

use crate::size::human;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ondol::{Progress, Told};
use std::sync::Arc;

/// A line that is being shown.
#[derive(Clone)]
pub(crate) struct Line {
    /// Draws now and then only, however often it is told something.
    line: ProgressBar,
    doing: &'static str,
}

impl Line {
    /// Shows what is begun.
    pub(crate) fn new(doing: &'static str) -> Self {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
        Self { line, doing }
    }

    /// Shows how far it is.
    pub(crate) fn tell(&self, progress: Progress) {
        if !self.line.is_hidden() {
            self.line.set_message(format!("{}: {}", self.doing, text(progress)));
        }
    }

    /// The same from any thread.
    pub(crate) fn told(&self) -> Told {
        let line = self.clone();
        Arc::new(move |progress| line.tell(progress))
    }

    /// Takes the line away.
    pub(crate) fn end(self) {
        self.line.finish_and_clear();
    }
}

fn text(Progress { what, done, total, bytes }: Progress) -> String {
    let number = |n: u64| if bytes { human(n) } else { n.to_string() };
    match total {
        0 => format!("{what} {}", number(done)),
        _ => {
            let percent = u128::from(done) * 100 / u128::from(total);
            format!("{what} {} of {}, {percent} %", number(done), number(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_said_in_the_units_of_its_kind() {
        let said = |done, total, bytes| text(Progress { what: "groups", done, total, bytes });
        assert_eq!(said(3, 12, false), "groups 3 of 12, 25 %");
        assert_eq!(said(3 << 20, 1 << 30, true), "groups 3 MiB of 1 GiB, 0 %");
        assert_eq!(said(u64::MAX, u64::MAX, false), format!("groups {0} of {0}, 100 %", u64::MAX));
        assert_eq!(said(1536, 0, true), "groups 1.5 KiB");
    }
}
