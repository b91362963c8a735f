//! What was counted, by line and by the code that modifies it.

use crate::trace::Change;
use crate::work::{COUNTED, Plan};
use std::collections::{BTreeSet, HashMap};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Modifications of one shared line.
#[derive(Default)]
struct Shared {
    changes: usize,
    threads: BTreeSet<usize>,
    /// By the instruction that made them.
    by: HashMap<u64, usize>,
}

/// Says what threads share. Returns how often an operation modifies a shared line that is not the allocator's.
pub(crate) fn print(plan: &Plan, traced: &[Vec<Change>]) -> f64 {
    let mut lines: HashMap<u64, Shared> = HashMap::new();
    for (thread, changes) in traced.iter().enumerate() {
        for change in changes {
            let line = lines.entry(change.at / LINE).or_default();
            line.changes += 1;
            line.threads.insert(thread);
            *line.by.entry(change.by).or_default() += 1;
        }
    }
    let operations = (plan.threads * COUNTED) as f64;
    let all: usize = traced.iter().map(Vec::len).sum();
    let mut shared: Vec<Shared> = lines.into_values().filter(|line| line.threads.len() > 1).collect();
    shared.sort_by_key(|line| std::cmp::Reverse(line.changes));
    let (of_allocator, own): (Vec<Shared>, Vec<Shared>) = shared.into_iter().partition(Shared::is_of_allocator);
    let each = |lines: &[Shared]| lines.iter().map(|line| line.changes).sum::<usize>() as f64 / operations;
    println!(
        "{} {}, {} threads on files of their own, {COUNTED} operations each",
        plan.engine,
        plan.work.name(),
        plan.threads
    );
    println!("  atomic read-modify-writes an operation: {:.1}", all as f64 / operations);
    println!("  of lines that several threads modify:   {:.2}, in {} lines", each(&own), own.len());
    println!("  of such lines of the allocator:         {:.2}, in {} lines", each(&of_allocator), of_allocator.len());
    for line in &own {
        println!("{:8.2} an operation, {} threads", line.changes as f64 / operations, line.threads.len());
        let mut by: Vec<(&u64, &usize)> = line.by.iter().collect();
        by.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (by, count) in by.into_iter().take(6) {
            println!("{:14.2} {}", *count as f64 / operations, place(*by));
        }
    }
    each(&own)
}

impl Shared {
    fn is_of_allocator(&self) -> bool {
        self.by.keys().all(|by| ["mi_", "_mi_"].iter().any(|prefix| place(*by).starts_with(prefix)))
    }
}

/// The functions that an instruction stands in, the innermost first, and where.
fn place(address: u64) -> String {
    let mut frames = Vec::new();
    backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
        let name = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
        let file = symbol.filename().and_then(|file| file.file_name()).map(|f| f.to_string_lossy().into_owned());
        let is_ours = symbol
            .filename()
            .is_some_and(|file| !file.to_string_lossy().contains(".cargo") && !file.starts_with("/rustc"));
        if is_ours || frames.is_empty() {
            frames.push(match (file, symbol.lineno()) {
                (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
                _ => name,
            });
        }
    });
    frames.truncate(4);
    frames.join(" in ")
}
