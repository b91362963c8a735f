//! `cargo xtask programs [--on TARGET]... [--scale N] [--seed N] [--size SIZE] [--mke2fs OPTIONS] [--list] [NAME...]`:
//! programs of others on a mount.
#![forbid(unsafe_code)]

use ondol_tests::programs::{Program, Report, Setting, Target, all, named, run, table};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask programs [--on \
                     journal|ordered|writeback|compressed|compressed-ordered|scalable|remap|bucket|kernel]...
    [--scale N] [--seed N] [--size SIZE] [--mke2fs OPTIONS] [--list] [NAME...]";

struct Asked {
    programs: Vec<Program>,
    targets: Vec<Target>,
    scale: u64,
    seed: u64,
    list: bool,
    size: Option<String>,
    mke2fs: Vec<String>,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if asked.list {
        for program in &asked.programs {
            let missing = program.missing().map(|why| format!(" ({why})")).unwrap_or_default();
            println!("{:<16}{}{missing}", program.name, program.about);
        }
        return ExitCode::SUCCESS;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let logs = Path::new(&target).join("programs");
    let mut setting = Setting::new(asked.scale, asked.seed, logs);
    (setting.size, setting.mke2fs) = (asked.size, asked.mke2fs);
    if let Err(e) = setting.catch_signals() {
        eprintln!("signals: {e}");
        return ExitCode::FAILURE;
    }
    let mut reports: Vec<Report> = Vec::new();
    for program in &asked.programs {
        for target in asked.targets.iter().take_while(|_| !setting.is_over()) {
            let report = run(program, target, &setting);
            println!("{}", report.line());
            reports.push(report);
        }
    }
    println!("\n{}", table(&reports));
    if reports.iter().any(Report::is_failure) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        programs: Vec::new(),
        targets: Vec::new(),
        scale: 1,
        seed: 1,
        list: false,
        size: None,
        mke2fs: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        let number = |text: String| text.parse().map_err(|e| format!("{text}: {e}"));
        match word.as_str() {
            "--on" => asked.targets.push(value()?.parse()?),
            "--scale" => asked.scale = number(value()?)?,
            "--seed" => asked.seed = number(value()?)?,
            "--mke2fs" => asked.mke2fs.extend(value()?.split_whitespace().map(str::to_owned)),
            "--size" => asked.size = Some(value()?),
            "--list" => asked.list = true,
            name if !name.starts_with('-') => asked.programs.push(named(name).map_err(|e| e.to_string())?),
            other => return Err(format!("{other}: not known")),
        }
    }
    if asked.programs.is_empty() {
        asked.programs = all().map_err(|e| e.to_string())?;
    }
    if asked.targets.is_empty() {
        asked.targets = ["journal", "ordered"].map(|data| Target::Ondol(data.into())).to_vec();
    }
    Ok(asked)
}
