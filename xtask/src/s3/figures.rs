//! What was measured, and what processes took for it.

use std::fs;
use std::process::Command;

/// What is measured, in its unit, a figure for each round.
#[derive(Default)]
pub(super) struct Figures(Vec<(String, &'static str, Vec<f64>)>);

impl Figures {
    pub(super) fn add(&mut self, name: &str, unit: &'static str, figure: f64) {
        match self.0.iter_mut().find(|(known, _, _)| known == name) {
            Some((_, _, figures)) => figures.push(figure),
            None => self.0.push((name.to_owned(), unit, vec![figure])),
        }
    }

    /// Of each round, how many times the other this one is; the median of that.
    pub(super) fn ratio(&self, name: &str, to: &str) -> f64 {
        let of = |name: &str| self.0.iter().find(|(known, _, _)| known == name).map_or(&[][..], |(_, _, n)| n);
        middle(of(name).iter().zip(of(to)).map(|(one, other)| one / other).collect())
    }

    pub(super) fn print(&self) {
        println!("| | median | lowest | highest |\n|---|--:|--:|--:|");
        for (name, unit, figures) in &self.0 {
            let (low, high) = figures.iter().fold((f64::MAX, 0f64), |(low, high), n| (low.min(*n), high.max(*n)));
            println!("| {name} | {:.2} {unit} | {low:.2} | {high:.2} |", middle(figures.clone()));
        }
    }
}

/// The median.
pub(super) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds of processors that a process has taken, its system calls included.
pub(super) fn processor_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    match ticks[..] {
        [own, system] => Ok((own + system) / 100.0),
        _ => Err(format!("{path} has no times")),
    }
}

/// What `command` prints.
pub(super) fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} failed: {}", said.lines().last().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut figures = Figures::default();
        for (ours, theirs) in [(2.0, 1.0), (30.0, 10.0), (4.0, 4.0)] {
            figures.add("ours", "ms", ours);
            figures.add("theirs", "ms", theirs);
        }
        assert_eq!(figures.ratio("ours", "theirs"), 2.0);
        assert!(figures.ratio("ours", "nobody's").is_nan());
    }

    #[test]
    fn this_process_has_taken_some_time() {
        let before = processor_seconds(std::process::id()).unwrap();
        let mut sum = 0u64;
        while processor_seconds(std::process::id()).unwrap() < before + 0.02 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(processor_seconds(0).is_err());
    }
}
