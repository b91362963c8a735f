//! `ondol info`: the state of an image or of a mounted volume.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome};
use crate::passed::source;
use crate::{image, say};
use ondol::machine::locks::shown;
use ondol::printable;
use ondol_fuse::{ClientError, client};
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
        say::json(&Value::Object(fields));
    } else {
        say::lines(&text(&fields));
    }
    Ok(ExitCode::SUCCESS)
}

/// From the server if the volume is mounted, from the image if not, or if the server has gone.
fn read(target: &Path) -> Result<Map<String, Value>, Failure> {
    let served = mounted(target).map(|dir| client::info(&dir));
    let value = match served {
        Some(Ok(json)) => serde_json::from_slice(&json),
        Some(Err(ClientError::Dead { point, image })) => {
            let (point, image_shown) = (shown(&point), shown(&image));
            eprintln!(
                "ondol: {point} has lost its server (`ondol umount {point}` removes it); this is what {image_shown} says"
            );
            of_image(&image)?
        }
        Some(Err(e)) => return Err(Failure::new(FAILED, e)),
        None => of_image(target)?,
    };
    match value.map_err(Failure::with(FAILED))? {
        Value::Object(fields) => Ok(fields),
        other => Err(Failure::new(FAILED, format!("{}: not a volume's state: {other}", target.display()))),
    }
}

fn of_image(target: &Path) -> Result<serde_json::Result<Value>, Failure> {
    image::warn_of_users(target);
    Ok(serde_json::to_value(ondol::info(target).map_err(Failure::with(FAILED))?))
}

/// A directory of the mounted volume: `target` itself, or where the image `target` is served.
fn mounted(target: &Path) -> Option<PathBuf> {
    if client::mounted_on(target).is_some() || target.is_dir() {
        return Some(target.to_owned());
    }
    client::serving(&source(target).ok()?).map(|e| e.point)
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
        Value::String(text) => printable(text.as_bytes()),
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
