//! How a run ended, and the table of several.

use super::{Program, Target};
use std::fmt::Write;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it must; with the last line that the script printed.
    Passed(String),
    /// Something is missing here.
    Skipped(String),
    /// Why it is not as it must be.
    Failed(String),
}

/// One program on one target.
#[derive(Clone, Debug)]
pub struct Report {
    /// The program.
    pub name: String,
    /// What the program says of its version.
    pub version: String,
    /// What it ran on.
    pub target: Target,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, with its checks.
    pub seconds: f64,
}

impl Report {
    /// A report of `program` that names its version.
    pub(super) fn new(program: &Program, target: &Target, outcome: Outcome, seconds: f64) -> Self {
        Self { name: program.name.clone(), version: version(program), target: target.clone(), outcome, seconds }
    }

    /// Whether something is wrong.
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let (word, said) = match &self.outcome {
            Outcome::Passed(said) => ("ok", said),
            Outcome::Skipped(why) => ("skipped", why),
            Outcome::Failed(why) => ("FAILED", why),
        };
        format!("{:<16}{:<19}{word:<8}{:>7.1} s  {said}", self.name, self.target.to_string(), self.seconds)
    }
}

fn version(program: &Program) -> String {
    if program.version.is_empty() || program.missing().is_some() {
        return String::new();
    }
    let output = std::process::Command::new("sh").args(["-c", &program.version]).output();
    let said = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    said.lines().next().unwrap_or_default().trim().to_owned()
}

/// The reports as a table in Markdown: a row for each program, a column for each target.
pub fn table(reports: &[Report]) -> String {
    let mut targets: Vec<&Target> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for report in reports {
        if !targets.contains(&&report.target) {
            targets.push(&report.target);
        }
        if !names.contains(&report.name.as_str()) {
            names.push(&report.name);
        }
    }
    let mut text = String::from("| program | version |");
    for target in &targets {
        let _ = write!(text, " {target} |");
    }
    text += "\n|---|---|";
    targets.iter().for_each(|_| text += "---|");
    for name in names {
        let of = |target: &Target| reports.iter().find(|r| r.name == name && r.target == *target);
        let version = reports.iter().find(|r| r.name == name).map_or("", |r| &r.version);
        let _ = write!(text, "\n| {name} | {version} |");
        for target in &targets {
            let cell = match of(target).map(|r| &r.outcome) {
                None => String::new(),
                Some(Outcome::Passed(said)) => said.clone(),
                Some(Outcome::Skipped(why)) => format!("skipped: {why}"),
                Some(Outcome::Failed(why)) => format!("**{}**", why.lines().next().unwrap_or_default()),
            };
            let _ = write!(text, " {} |", cell.replace('|', "\\|"));
        }
    }
    text
}
