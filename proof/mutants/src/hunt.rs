//! The crash laboratory, and the tests of crates, on one mutant after the other.

use crate::Arguments;
use crate::process::{self, Bound, Ended};
use crate::sample::Chosen;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Seconds of processors that every mutant is hunted for, in each place.
const FIRST: u64 = 10;
/// And the laboratory without any, before.
const BASELINE: u64 = 20;

/// Seconds in which tests are built, and run without a mutant.
const BUILD: f64 = 3600.0;

// What becomes of a mutant. One that survives the laboratory meets tests when all have been there.
const FOUND: &str = "found";
const SURVIVES: &str = "survives";
const TESTS: &str = "tests";
const ALIVE: &str = "alive";

struct Hunt<'a> {
    args: &'a Arguments,
    /// By name of a mutant, its last line in the file of results.
    known: BTreeMap<String, Value>,
    /// Where nothing is found without a mutant.
    sound: BTreeSet<&'static str>,
    /// By crate, how long its tests take; none if they fail without a mutant.
    tests: BTreeMap<String, Option<f64>>,
}

/// Hunts each mutant that has no verdict from before, first all for a short time; gives those that survive to the
/// tests, and prints a table of all.
///
/// # Errors
/// Something is found without a mutant; a program cannot be started.
pub(crate) fn run(args: &Arguments, drawn: &[Chosen]) -> Result<(), String> {
    let mut hunt = Hunt { args, known: BTreeMap::new(), sound: BTreeSet::new(), tests: BTreeMap::new() };
    let text = fs::read_to_string(hunt.file()).unwrap_or_default();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        hunt.known.insert(line["mutant"].as_str().unwrap_or_default().to_owned(), line);
    }
    for seconds in [FIRST, args.seconds.max(FIRST)] {
        for chosen in drawn {
            let (verdict, had, spent) = hunt.so_far(chosen);
            if matches!(verdict, None | Some(SURVIVES)) && had < seconds {
                hunt.require_sound("classic", BASELINE)?;
                let (found, more) = hunt.in_laboratory(chosen, seconds)?;
                let verdict = if found.is_some() { FOUND } else { SURVIVES };
                hunt.note(chosen, verdict, seconds, spent + more, &found.unwrap_or_default())?;
            }
        }
    }
    for chosen in drawn {
        if let (Some(SURVIVES), seconds, spent) = hunt.so_far(chosen) {
            let verdict = if hunt.fails_tests(chosen)? { TESTS } else { ALIVE };
            hunt.note(chosen, verdict, seconds, spent, "")?;
        }
    }
    hunt.table(drawn);
    Ok(())
}

/// Where the laboratory reaches a file: engines, or workloads that are no engine's.
pub(crate) fn places(file: &str) -> &'static [&'static str] {
    let parts: [(&str, &[&str]); 17] = [
        ("format/src/unit", &["compressed"]),
        ("journal/src/compressed/recover", &["compressed", "tools"]),
        ("journal/src/compressed", &["compressed"]),
        ("journal/src/scalable", &["scalable", "remap"]),
        ("journal/src/batch", &["batch"]),
        ("journal/src/swap", &["swap"]),
        ("journal/src/remap", &["remap"]),
        // What it says of a pool, too.
        ("journal/src/jbd2/mod", &["classic", "scalable", "tools"]),
        ("journal/src/jbd2/re", &["classic", "swap", "tools"]),
        ("journal/src/jbd2", &["classic", "swap"]),
        ("journal/src/block_engine", &["classic", "compressed"]),
        ("nvm-log", &["scalable", "remap", "log"]),
        ("page-table", &["swap", "remap", "pool", "table", "tools"]),
        ("run-log", &["run"]),
        ("write-buffer", &["buffer"]),
        ("volume/src/resize", &["resize", "tools"]),
        ("volume/src/growing", &["resize"]),
    ];
    parts.iter().find(|(part, _)| file.contains(part)).map_or(&["classic", "scalable"], |(_, places)| places)
}

impl Hunt<'_> {
    fn file(&self) -> PathBuf {
        self.args.dir.join(format!("found-{}.jsonl", self.args.seed))
    }

    /// The last verdict, the seconds that the laboratory had in each place, and those of all places together.
    fn so_far(&self, chosen: &Chosen) -> (Option<&str>, u64, f64) {
        let Some(line) = self.known.get(&chosen.name()) else { return (None, 0, 0.0) };
        let spent = line["processor_seconds"].as_f64().unwrap_or_default();
        (line["verdict"].as_str(), line["seconds"].as_u64().unwrap_or_default(), spent)
    }

    /// Prints what became of a mutant, and keeps it for a run that goes on after this one.
    fn note(&mut self, chosen: &Chosen, verdict: &str, seconds: u64, spent: f64, by: &str) -> Result<(), String> {
        let (number, name) = (chosen.number, chosen.name());
        println!("{number} {name}: {verdict}, {spent:.1} s{}{by}", if by.is_empty() { "" } else { ", " });
        let line = json!({
            "number": number, "mutant": name, "crate": chosen.of(), "verdict": verdict, "by": by,
            "seconds": seconds, "processor_seconds": spent,
        });
        let file = self.file();
        let failed = |e: std::io::Error| format!("{}: {e}", file.display());
        let mut to = OpenOptions::new().create(true).append(true).open(&file).map_err(failed)?;
        writeln!(to, "{line}").map_err(failed)?;
        self.known.insert(name, line);
        Ok(())
    }

    /// Sets the laboratory on a mutant, or on none; what was found, if anything, and the seconds of processors.
    fn laboratory(&self, place: &str, number: u32, seconds: u64) -> Result<(Option<String>, f64), String> {
        let mut command = Command::new(self.args.dir.join("ondol-lab"));
        command.args(["crash", "--as-found", "--json", "--violations", "1"]);
        command.env("ONDOL_MUTANT", number.to_string());
        let time = seconds.to_string();
        match place {
            "pool" => command.args(["--workload", place, "--seconds", &time]),
            "run" | "buffer" | "log" | "table" | "resize" | "tools" => {
                command.args(["--workload", place, "--processor-seconds", &time])
            }
            engine => command.args(["--engine", engine, "--processor-seconds", &time]),
        };
        let ended = process::run(&mut command, Bound::Processor(2.0 * seconds as f64 + 60.0), &self.args.dir)?;
        Ok((shown(&ended).map(|what| format!("{place}: {what}")), ended.spent))
    }

    fn require_sound(&mut self, place: &'static str, seconds: u64) -> Result<(), String> {
        if self.sound.insert(place)
            && let (Some(what), _) = self.laboratory(place, 0, seconds)?
        {
            return Err(format!("without a mutant, {what}"));
        }
        Ok(())
    }

    /// What finds a mutant, and the seconds of processors that the laboratory had.
    fn in_laboratory(&mut self, chosen: &Chosen, seconds: u64) -> Result<(Option<String>, f64), String> {
        let mut all = 0.0;
        for place in places(&chosen.file) {
            self.require_sound(place, FIRST)?;
            let (found, spent) = self.laboratory(place, chosen.number, seconds)?;
            all += spent;
            if found.is_some() {
                return Ok((found, all));
            }
        }
        Ok((None, all))
    }

    /// Whether the tests of its crate find a mutant.
    fn fails_tests(&mut self, chosen: &Chosen) -> Result<bool, String> {
        let package = format!("ondol-{}", chosen.of());
        let test = |number: u32, last: &[&str], bound: f64| {
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.args(["test", "--quiet", "-p", &package]).args(last).env("ONDOL_MUTANT", number.to_string());
            process::run(&mut command, Bound::Clock(bound), &self.args.dir)
        };
        let passes = |ended: &Ended| ended.status.is_some_and(|status| status.success());
        // Apart from the tests' own time: it takes long at first, and later waits for whoever else builds.
        let _built = test(0, &["--no-run"], BUILD)?;
        if !self.tests.contains_key(chosen.of()) {
            let ended = test(0, &[], BUILD)?;
            if !passes(&ended) {
                println!("the tests of {} fail without a mutant, too: they judge none", chosen.of());
            }
            self.tests.insert(chosen.of().to_owned(), passes(&ended).then_some(ended.seconds));
        }
        match self.tests.get(chosen.of()).copied().flatten() {
            Some(seconds) => Ok(!passes(&test(chosen.number, &[], 4.0 * seconds + 60.0)?)),
            None => Ok(false),
        }
    }

    /// By crate: how many mutants there are, and what found them.
    fn table(&self, drawn: &[Chosen]) {
        let mut rows: BTreeMap<&str, ([usize; 3], f64)> = BTreeMap::new();
        for chosen in drawn {
            let Some(line) = self.known.get(&chosen.name()) else { continue };
            let verdict = [FOUND, TESTS, ALIVE].iter().position(|name| line["verdict"] == *name).unwrap_or(2);
            for row in [chosen.of(), "all"] {
                let (counts, spent) = rows.entry(row).or_default();
                counts[verdict] += 1;
                *spent += line["processor_seconds"].as_f64().unwrap_or_default();
            }
        }
        // The sum comes last.
        let sum = rows.remove("all");
        println!("\n| crate | mutants | found | by its tests | alive | processor seconds |\n|---|--:|--:|--:|--:|--:|");
        for (name, ([found, tests, alive], spent)) in rows.into_iter().chain(sum.map(|sum| ("all", sum))) {
            println!("| {name} | {} | {found} | {tests} | {alive} | {spent:.0} |", found + tests + alive);
        }
    }
}

/// What a run of the laboratory shows, in a few words.
fn shown(ended: &Ended) -> Option<String> {
    let Some(status) = ended.status else { return Some("hangs".into()) };
    match status.code() {
        Some(0) => None,
        Some(1) => {
            let found: Value =
                ended.told.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            let phase = found["first"]["phase"].as_str().unwrap_or("its life");
            let what = found["found"][0].as_str().and_then(|text| text.lines().next()).unwrap_or_default();
            Some(format!("{phase}: {}", what.chars().take(160).collect::<String>()))
        }
        _ => {
            let why = ended.complained.lines().next().unwrap_or_default();
            Some(format!("ends with {status}: {}", why.chars().take(160).collect::<String>()))
        }
    }
}
