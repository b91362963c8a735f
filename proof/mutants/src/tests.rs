//! Tests of finding and weaving.

use crate::find::{self, Change};
use crate::{blamed, sample, weave};
use std::collections::BTreeMap;
use std::process::Command;

/// What has mutants, and what has none.
const SOURCE: &str = r#"
const SIZE: usize = 1 + 2;
const fn never(a: u64) -> bool { a == 1 }
struct Log { at: u64, words: [u8; 1 + 1] }
impl Log {
    fn put(&mut self, n: u64) -> Result<(), String> {
        self.check(n)?;
        if n as u64 > 3 && !self.is_full() {
            self.at += n;
        }
        assert!(n + 1 < 9);
        Ok(())
    }
    fn check(&self, n: u64) -> Result<(), String> { Ok(()) }
    fn is_full(&self) -> bool {
        match self.at { n if n > 7 => true, 4 => {
            if let Some(5) = self.at.checked_add(1) && self.at == 4 { true } else { false } } _ => false }
    }
}
#[cfg(test)]
mod tests { fn none() -> bool { 1 == 2 } }
"#;

fn told(text: &str) -> Vec<String> {
    find::mutants(text).expect("Rust").into_iter().map(|mutant| format!("{} {}", mutant.line, mutant.told)).collect()
}

#[test]
fn a_text_has_these_mutants_and_no_others() {
    let expected = [
        "6 body of `put` -> `Ok(())`",
        "7 without `self.check(n)?;`",
        "8 `n as u64 > 3 && !self.is_full()` -> `true`",
        "8 `n as u64 > 3 && !self.is_full()` -> `false`",
        "8 `n as u64 > 3 && !self.is_full()` -> `n as u64 > 3 || !self.is_full()`",
        "8 `n as u64 > 3` -> `n as u64 >= 3`",
        "8 `!self.is_full()` -> `self.is_full()`",
        "9 `self.at += n` -> `self.at -= n`",
        "15 body of `is_full` -> `true`",
        "15 body of `is_full` -> `false`",
        "16 `n > 7` -> `true`",
        "16 `n > 7` -> `false`",
        "16 `n > 7` -> `n >= 7`",
        "17 `self.at == 4` -> `self.at != 4`",
    ];
    assert_eq!(told(SOURCE), expected);
}

#[test]
fn functions_that_return_values_return_others() {
    let text = "fn a() -> Option<u8> { f() }\nfn b() -> Result<u64> { f() }\nfn c() { f() }\nfn d() -> String { f() }";
    let expected =
        ["1 body of `a` -> `None`", "2 body of `b` -> `Ok(0)`", "2 body of `b` -> `Ok(1)`", "3 body of `c` -> `()`"];
    assert_eq!(told(text), expected);
}

/// The whole text with all of its mutants is compiled and run: with none chosen, and with each.
#[test]
fn a_woven_text_means_what_it_meant_until_a_mutant_is_chosen() {
    let mutants = find::mutants(SOURCE).expect("Rust");
    let numbered: Vec<_> = (1..).zip(&mutants).collect();
    let woven = weave::weave(SOURCE, &numbered).text.replace("::ondol_env::", "");
    let asking = include_str!("../mutant.rs").replace("//! ", "// ");
    let main = r#"
fn main() {
    let mut log = Log { at: 0, words: [0; 2] };
    let done: Vec<bool> = [1, 4, 3, 8].into_iter().map(|n| log.put(n).is_ok()).collect();
    print!("{} {done:?} {} {}", log.at, SIZE, never(1));
}
"#;
    let dir = tempfile::tempdir().expect("a folder");
    let built = |name: &str, text: String| {
        let (source, program) = (dir.path().join(format!("{name}.rs")), dir.path().join(name));
        std::fs::write(&source, text).expect("written");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "--cap-lints=allow", "-o"]).arg(&program).arg(&source);
        assert!(rustc.status().expect("rustc").success(), "{name}");
        program
    };
    let is = built("is", SOURCE.replace("assert!(n + 1 < 9);", "") + main);
    let woven = built("woven", woven.replace("assert!(n + 1 < 9);", "") + main + "mod mutant {" + &asking + "}");
    let run = |program: &std::path::Path, number: usize| {
        Command::new(program).env("ONDOL_MUTANT", number.to_string()).output().expect("run").stdout
    };
    assert_eq!(run(&is, 0), run(&woven, 0));
    let differ = (1..=mutants.len()).filter(|number| run(&woven, *number) != run(&is, 0)).count();
    assert!(differ > mutants.len() / 2, "only {differ} of {} mutants do anything", mutants.len());
    assert!(mutants.iter().any(|mutant| mutant.change == Change::LeftOut));
}

#[test]
fn errors_are_blamed_on_the_innermost_mutant_around_them_else_on_the_function() {
    let text = "fn f(a: u8) -> u8 { g(); a + (b - c) }\nfn g() { h() }";
    let mutants = find::mutants(text).expect("Rust");
    let numbered: Vec<_> = (1..).zip(&mutants).collect();
    let of = |told: &str| numbered.iter().find(|(_, mutant)| mutant.told.contains(told)).expect("a mutant").0;
    let files = BTreeMap::from([("x.rs".to_owned(), weave::weave(text, &numbered))]);
    let message = |needle: &str| {
        let at = files["x.rs"].text.find(needle).expect("in it");
        let span = serde_json::json!({"file_name": "x.rs", "byte_start": at, "byte_end": at + needle.len(),
            "is_primary": true});
        serde_json::json!({"message": {"level": "error", "spans": [span]}}).to_string()
    };
    assert_eq!(Vec::from_iter(blamed(&message("(b) + c"), &files)), [of("`b - c`")]);
    assert_eq!(Vec::from_iter(blamed(&message("h()"), &files)), [of("body of `g`")]);
    assert_eq!(blamed(&message("fn f"), &files).len(), 0);
    assert_eq!(blamed(&"not json\n".repeat(2), &files).len(), 0);
}

#[test]
fn a_larger_sample_begins_with_the_smaller_one_and_every_crate_is_in_it() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let names = |seed, count| {
        let drawn = sample::draw(root, seed, count, None).expect("a sample");
        drawn.iter().map(sample::Chosen::name).collect::<Vec<_>>()
    };
    let large = names(1, 60);
    assert_eq!(large[..30], names(1, 30));
    assert_ne!(large, names(2, 60));
    for one in ["format", "journal", "nvm-log", "page-table", "run-log", "volume", "write-buffer"] {
        assert!(large.iter().any(|name| name.starts_with(&format!("crates/{one}/"))), "{one}");
    }
    let only = sample::draw(root, 1, 10, Some("journal/src/ring")).expect("a sample");
    assert!(only.len() == 10 && only.iter().all(|chosen| chosen.file == "crates/journal/src/ring.rs"));
}
