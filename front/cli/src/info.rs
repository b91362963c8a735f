//! `ondol info`: the state of an image or of a mounted volume.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome};
use ondol_fuse::{client, mountinfo};
use serde_json::{Map, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The fields that only `--stats` shows.
const STATISTICS: [&str; 2] = ["counters", "requests"];

/// Shows what is known of a volume.
pub(crate) fn info(args: &args::Info) -> Outcome {
    let mut fields = read(&args.target)?;
    if !args.stats {
        fields.retain(|name, _| !STATISTICS.contains(&name.as_str()));
    }
    if args.json {
        println!("{}", Value::Object(fields));
    } else {
        print!("{}", text(&fields));
    }
    Ok(ExitCode::SUCCESS)
}

/// From the server if the volume is mounted, from the image if not.
fn read(target: &Path) -> Result<Map<String, Value>, Failure> {
    let value = match mounted(target) {
        Some(dir) => {
            let json = client::info(&dir).map_err(Failure::with(FAILED))?;
            serde_json::from_slice(&json)
        }
        None => serde_json::to_value(ondol::info(target).map_err(Failure::with(FAILED))?),
    };
    match value.map_err(Failure::with(FAILED))? {
        Value::Object(fields) => Ok(fields),
        other => Err(Failure::new(FAILED, format!("{}: not a volume's state: {other}", target.display()))),
    }
}

/// A directory of the mounted volume: `target` itself, or where the image `target` is mounted.
fn mounted(target: &Path) -> Option<PathBuf> {
    if target.is_dir() {
        return Some(target.to_owned());
    }
    let image = target.canonicalize().ok()?;
    let table = mountinfo::read().ok()?;
    table.into_iter().find(|e| e.fs_type == mountinfo::FS_TYPE && e.source == image).map(|e| e.point)
}

/// One line for each field, parts of a field indented below it.
pub(crate) fn text(fields: &Map<String, Value>) -> String {
    let mut out = String::new();
    lines(&mut out, fields, 0);
    out
}

fn lines(out: &mut String, fields: &Map<String, Value>, depth: usize) {
    let indent = "  ".repeat(depth);
    let width = fields.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in fields {
        let name = name.replace('_', " ");
        // Writing to a string cannot fail.
        let _ = match value {
            Value::Object(parts) => writeln!(out, "{indent}{name}:").map(|()| lines(out, parts, depth + 1)),
            other => writeln!(out, "{indent}{name:width$}  {}", plain(other)),
        };
    }
}

pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_aligned_lines() {
        let value = serde_json::json!({
            "label": "home", "block_size": 4096, "features": ["extents", "dir_index"], "journal": {"blocks": 1024, "uuid": null}
        });
        let Value::Object(fields) = value else { unreachable!() };
        let expected = "block size  4096\nfeatures    extents dir_index\njournal:\n  blocks  1024\n  uuid    -\nlabel       home\n";
        assert_eq!(text(&fields), expected);
    }
}
