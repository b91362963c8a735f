//! Papers whose figures show workloads on file systems: a list of panels, each a run in which the targets take turns,
//! and one table of all of them.

use super::summary;
use crate::BenchError;
use crate::args::{PaperArgs, RunArgs, Settle};
use crate::interrupt::Interrupt;
use crate::machine::{Machine, commit};
use crate::report::Report;
use crate::run;
use crate::series::{self, Book, Outcome, Parts};
use crate::target;
use ondol_fuse::Transport;
use serde::Serialize;
use std::path::Path;
use summary::Column;

/// A paper.
pub(super) struct List {
    /// As it is called on the command line: `paper 3`.
    pub(super) name: &'static str,
    /// What it is about.
    pub(super) title: &'static str,
    /// In the order in which they are measured.
    pub(super) panels: &'static [Panel],
    /// Of the table, after the first one, which names the panel.
    pub(super) columns: &'static [Column],
    /// What the paper leaves open or has otherwise, and how that is read here.
    pub(super) readings: &'static [&'static str],
    /// Ideas that no option switches off by itself, and why.
    pub(super) fixed: &'static [&'static str],
    /// What is waited for at the end of a turn.
    pub(super) settle: Option<Settle>,
}

/// The full system with one idea off, or what the paper has and the full system has not on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ablation {
    /// What is off, as it is called in columns: `without ...`.
    pub(super) without: Contender,
    /// The contender that has it, by name.
    pub(super) full: &'static str,
}

/// A workload on a medium.
#[derive(Debug, Serialize)]
pub(super) struct Panel {
    /// The paper's figures that it belongs to.
    pub(super) figures: &'static [u32],
    /// The medium, as it is called here.
    pub(super) device: &'static str,
    /// What it shows.
    pub(super) workload: &'static str,
    /// The workload to run.
    #[serde(skip)]
    pub(super) run: &'static str,
    #[serde(skip)]
    pub(super) params: &'static [&'static str],
    #[serde(skip)]
    pub(super) full: Size,
    #[serde(skip)]
    pub(super) quick: Size,
    /// Who takes part. Ratios of the panel's own tables are to the first.
    #[serde(skip)]
    pub(super) contenders: &'static [Contender],
    /// Who takes part, too, with `--ablate`.
    #[serde(skip)]
    pub(super) ablations: &'static [Ablation],
    /// What stands in place of words in braces in their targets.
    #[serde(skip)]
    pub(super) fill: &'static [(&'static str, &'static str)],
    /// What the paper says.
    pub(super) paper: Paper,
    /// Why figures here are not the paper's.
    pub(super) why: &'static str,
}

/// How much of a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) ops: u64,
    /// Threads; `None`: the workload's own number.
    pub(super) threads: Option<u32>,
    pub(super) params: &'static [&'static str],
    /// What part of the paper's that is.
    pub(super) scale: &'static str,
}

/// A file system that takes part in panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    /// Its name in columns.
    pub(super) name: &'static str,
    /// What it runs on, with words in braces that panels fill in.
    pub(super) target: &'static str,
}

/// What a paper says of a panel: in its text or in a table, as bars have no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Paper {
    /// Its scheme in multiples of its ext4, in its own words.
    pub(super) ratio: &'static str,
    /// The same in multiples of another scheme that it has built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rival: Option<&'static str>,
    /// Its rates, with their unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rates: Option<&'static str>,
    /// Mean microseconds for compressing a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compression_us: Option<f64>,
}

impl Paper {
    /// Nothing but this ratio to its ext4.
    pub(super) const fn ratio(ratio: &'static str) -> Self {
        Self { ratio, rival: None, rates: None, compression_us: None }
    }
}

/// A panel, measured.
#[derive(Debug, Serialize)]
pub(super) struct Drawn {
    #[serde(flatten)]
    pub(super) panel: &'static Panel,
    /// What part of the paper's workload was run.
    pub(super) scale: &'static str,
    /// What came out here.
    pub(super) result: Report,
}

/// All panels, for the JSON.
#[derive(Serialize)]
pub(super) struct Drawing {
    #[serde(skip)]
    pub(super) list: &'static List,
    /// The name and the title of the list.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) quick: bool,
    /// Panels or rounds are missing: the run was interrupted, or a panel failed.
    pub(super) partial: bool,
    pub(super) machine: Machine,
    pub(super) commit: &'static str,
    /// Each idea is off by itself, too.
    pub(super) ablate: bool,
    /// The NVM's model; `None`: this machine's memory as it is.
    pub(super) nvm_model: Option<&'static str>,
    /// Who could not take part here, and why.
    pub(super) missing: Vec<String>,
    pub(super) readings: &'static [&'static str],
    pub(super) panels: Vec<Drawn>,
}

/// Draws the figures that were asked for.
pub(super) fn run(list: &'static List, args: &PaperArgs, book: &mut Book<'_>) -> Result<(), BenchError> {
    let root = rustix::process::geteuid().is_root();
    let chosen = Chosen { list, panels: chosen(list, args.figure)?, root };
    if !args.dir.is_dir() {
        return Err(BenchError::Usage(format!("--dir {}: not a directory", args.dir.display())));
    }
    let dir = target::in_memory(&args.dir)?;
    // Between the panels, too.
    let interrupt = Interrupt::catch()?;
    chosen.draw(args, book, |panel| {
        interrupt.check().and_then(|()| run::report(&run_args(list, panel, root, args, &dir)))
    })
}

/// The panels of a figure, or all.
pub(super) fn chosen(list: &'static List, figure: Option<u32>) -> Result<Vec<&'static Panel>, BenchError> {
    let panels: Vec<_> = list.panels.iter().filter(|panel| figure.is_none_or(|n| panel.figures.contains(&n))).collect();
    if !panels.is_empty() {
        return Ok(panels);
    }
    let mut figures: Vec<u32> = list.panels.iter().flat_map(|panel| panel.figures).copied().collect();
    figures.sort_unstable();
    figures.dedup();
    let figures: Vec<_> = figures.iter().map(u32::to_string).collect();
    let figures = match figures.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => figures.concat(),
    };
    Err(BenchError::Usage(format!("bench {}: there are figures {figures}", list.name)))
}

/// Panels of a list that are to be drawn.
pub(super) struct Chosen {
    pub(super) list: &'static List,
    pub(super) panels: Vec<&'static Panel>,
    /// Only root may mount.
    pub(super) root: bool,
}

impl Chosen {
    /// Measures panel after panel and keeps what was measured, whatever becomes of the rest.
    pub(super) fn draw(
        &self,
        args: &PaperArgs,
        book: &mut Book<'_>,
        mut measure: impl FnMut(&Panel) -> Result<Report, BenchError>,
    ) -> Result<(), BenchError> {
        let Self { list, ref panels, root } = *self;
        let mut drawing = Drawing {
            list,
            name: list.name,
            title: list.title,
            quick: args.quick,
            partial: true,
            machine: Machine::here(),
            commit: commit(),
            ablate: args.ablate,
            nvm_model: args.nvm_model,
            missing: missing(panels, root, args),
            readings: list.readings,
            panels: Vec::new(),
        };
        series::run(
            book,
            &Parts { called: "panel", all: panels, head: &|panel| panel.heading() },
            &mut drawing,
            |panel| measure(panel),
            |drawing, panel, result, partial| {
                let scale = panel.size(args.quick).scale;
                drawing.panels.push(Drawn { panel, scale, result });
                drawing.partial = partial;
            },
        )
    }
}

impl Outcome for Drawing {
    fn terminal(&self) -> String {
        summary::terminal(self)
    }

    fn is_empty(&self) -> bool {
        self.panels.is_empty()
    }
}

impl Panel {
    /// Its figures, workload and medium.
    pub(super) fn heading(&self) -> String {
        let figures: Vec<_> = self.figures.iter().map(u32::to_string).collect();
        let figures = if figures.is_empty() { String::new() } else { format!("{}: ", figures.join(", ")) };
        format!("{figures}{}, {}", self.workload, self.device)
    }

    fn size(&self, quick: bool) -> &Size {
        if quick { &self.quick } else { &self.full }
    }

    /// What a contender runs on here.
    fn target(&self, contender: &Contender) -> String {
        self.fill.iter().fold(contender.target.to_owned(), |target, (word, text)| target.replace(word, text))
    }

    /// What the contender of this name runs on here, or what the ablation does; `None` if there is none.
    pub(super) fn target_of(&self, name: &str) -> Option<String> {
        let ablations = self.ablations.iter().map(|ablation| &ablation.without);
        let contender = self.contenders.iter().chain(ablations).find(|contender| contender.name == name);
        contender.map(|contender| self.target(contender))
    }

    /// Who takes part: ours on one front end side by side, so ablations, which are the library's, come after the
    /// library's.
    pub(super) fn taking_part(&self, ablate: bool) -> Vec<Contender> {
        let (library, others): (Vec<_>, Vec<_>) =
            self.contenders.iter().partition(|one| one.target.starts_with("lib:"));
        let ablations = self.ablations.iter().filter(|_| ablate).map(|ablation| ablation.without);
        library.into_iter().copied().chain(ablations).chain(others.into_iter().copied()).collect()
    }
}

/// Why a contender takes no part in a panel; `None`: it does. Mounts are root's, and where ours lie in a modelled NVM
/// all else would lie in faster memory.
fn refusal(panel: &Panel, contender: &Contender, root: bool, nvm_model: Option<&str>) -> Option<&'static str> {
    let elsewhere = !contender.target.contains(":nvm:");
    let rings = contender.target.ends_with("transport=uring");
    if !root && !contender.target.starts_with("lib:") {
        Some("needs root, which mounts")
    } else if rings && Transport::Rings.refusal().is_some() {
        Some("the kernel's FUSE has no io_uring")
    } else if elsewhere && nvm_model.is_some() && panel.contenders.iter().any(|one| one.target.contains(":nvm:")) {
        Some("its memory cannot be slowed as `--nvm-model` does")
    } else {
        None
    }
}

/// Who takes no part, and why.
fn missing(panels: &[&'static Panel], root: bool, args: &PaperArgs) -> Vec<String> {
    let mut missing = Vec::new();
    let all = panels.iter().flat_map(|panel| panel.taking_part(args.ablate).into_iter().map(move |one| (panel, one)));
    for (panel, contender) in all {
        let Some(why) = refusal(panel, &contender, root, args.nvm_model) else { continue };
        let what = format!("{}: {why}", contender.name);
        if !missing.contains(&what) {
            missing.push(what);
        }
    }
    missing
}

/// How often every target has its turn.
pub(super) fn rounds(args: &PaperArgs) -> u32 {
    args.rounds.unwrap_or(if args.quick { 1 } else { 5 })
}

/// The run that measures a panel, with images in `dir`.
pub(super) fn run_args(list: &List, panel: &Panel, root: bool, args: &PaperArgs, dir: &Path) -> RunArgs {
    let size = panel.size(args.quick);
    let all = panel.taking_part(args.ablate);
    let here = all.iter().filter(|one| refusal(panel, one, root, args.nvm_model).is_none());
    RunArgs {
        workload: panel.run.to_owned(),
        on: here.map(|contender| panel.target(contender)).collect(),
        rounds: rounds(args),
        threads: size.threads,
        seconds: None,
        ops: Some(size.ops),
        ratio: args.ratio,
        settle: list.settle,
        nvm_model: args.nvm_model,
        params: size.params.iter().chain(panel.params).map(|&param| param.to_owned()).collect(),
        dir: dir.to_owned(),
        json: None,
    }
}
