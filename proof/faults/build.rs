//! Makes a list of the patches: of each its name, and what its first line says.

use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=.");
    println!("cargo::rustc-check-cfg=cfg(patched)");
    // Only the copy to which the patches are applied has it.
    let asked = Path::new("../../crates/env/src/fault.rs");
    println!("cargo::rerun-if-changed={}", asked.display());
    if asked.exists() {
        println!("cargo::rustc-cfg=patched");
    }
    let mut lines = Vec::new();
    for entry in fs::read_dir(std::env::var("CARGO_MANIFEST_DIR")?)? {
        let path = entry?.path();
        let Some(name) = path.to_str().and_then(|path| path.strip_suffix(".patch")) else { continue };
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let text = fs::read_to_string(&path)?;
        let head = text.lines().next().and_then(|line| line.split_once(": "));
        let (subject, what) = head.ok_or_else(|| format!("{name}: its first line is to be `SUBJECT: SENTENCE.`"))?;
        let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
        let variant: String = name.split('-').map(capital).collect();
        lines.push(format!("    {variant} {name:?} {subject} {what:?},\n"));
    }
    lines.sort();
    let list = format!("defects! {{\n{}}}\n", lines.concat());
    Ok(fs::write(Path::new(&std::env::var("OUT_DIR")?).join("list.rs"), list)?)
}
