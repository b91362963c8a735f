//! `ondol info`: the state of an image or of a mounted volume.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome};
use crate::passed::source;
use crate::{image, say, size};
use ondol::machine::locks::shown;
use ondol::printable;
use ondol_fuse::{ClientError, client};
use serde_json::{Map, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The fields that only `--stats` shows.
const STATISTICS: [&str; 3] = ["counters", "requests", "errors"];

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
    let dir = mounted(target);
    let value = match dir.as_ref().map(|dir| client::info(dir)) {
        Some(Ok(json)) => serde_json::from_slice(&json).map(|value| with_server(value, dir.as_deref())),
        Some(Err(ClientError::Dead { point, image })) => {
            let (point, image_shown) = (shown(&point), shown(&image));
            eprintln!(
                "ondol: {point} has lost its server (`ondol umount {point}` removes it); this is what {image_shown} \
                 says"
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

/// Adds where it is mounted and which process serves it, as the kernel tells it.
fn with_server(mut value: Value, dir: Option<&Path>) -> Value {
    if let Some((entry, fields)) = dir.and_then(|dir| client::find(dir).ok()).zip(value.as_object_mut()) {
        fields.insert("mount_point".into(), shown(&entry.point).into());
        fields.insert("pid".into(), client::server_of(&entry).into());
    }
    value
}

fn of_image(target: &Path) -> Result<serde_json::Result<Value>, Failure> {
    image::warn_of_users(target);
    Ok(serde_json::to_value(ondol::info(target).map_err(|e| Failure::new(FAILED, image::unopened(e, target)))?))
}

/// A directory of the mounted volume: `target` itself, or where the image `target` is served.
pub(crate) fn mounted(target: &Path) -> Option<PathBuf> {
    if client::mounted_on(target).is_some() || (target.is_dir() && !ondol::is_in_bucket(target)) {
        return Some(target.to_owned());
    }
    client::serving(&source(target).ok()?).map(|e| e.point)
}

/// Fields in the order in which they are shown; all others come behind them by name. Those that have parts come last.
const ORDER: [&str; 42] = [
    "target",
    "mount_point",
    "pid",
    "pool",
    "label",
    "uuid",
    "state",
    "engine",
    "data",
    "fsync",
    "read_only",
    "dirty",
    "stopped",
    "not_home",
    "device",
    "medium",
    "domain",
    "survives",
    "size",
    "block_size",
    "blocks",
    "bytes",
    "free_blocks",
    "reserved_blocks",
    "inodes",
    "free_inodes",
    "inode_size",
    "groups",
    "total",
    "pages",
    "mapped",
    "storage",
    "read_in_place",
    "memory",
    "log",
    "held",
    "free",
    "atomic_bytes",
    "memory_bound",
    "options",
    "served_with",
    "features",
];

/// The same of fields that have parts.
const PARTS: [&str; 4] = ["mount", "journal", "table", "pages"];

/// Bytes of a page of a pool.
const PAGE: u64 = 4096;

/// One line for each field, parts of a field indented below it.
pub(crate) fn text(fields: &Map<String, Value>) -> String {
    let mut out = String::new();
    let block = fields.get("block_size").and_then(Value::as_u64);
    lines(&mut out, fields, &Units { block, pages: false }, 0);
    out
}

/// What numbers of a group of fields count.
struct Units {
    /// Bytes of a block, where there are any.
    block: Option<u64>,
    /// Whether everything counts pages.
    pages: bool,
}

impl Units {
    /// How many bytes the number of this field stands for, unless it stands for something else.
    fn bytes(&self, name: &str, number: u64) -> Option<u64> {
        let unit = match name {
            "blocks" | "free_blocks" | "reserved_blocks" => self.block?,
            "pages" | "mapped" => PAGE,
            "memory_bound" | "size" | "up" | "down" => 1,
            _ if name == "bytes" || name.ends_with("_bytes") => 1,
            _ if self.pages => PAGE,
            // What a pool has left.
            "free" => 1,
            _ => return None,
        };
        number.checked_mul(unit)
    }
}

fn lines(out: &mut String, fields: &Map<String, Value>, units: &Units, depth: usize) {
    let indent = "  ".repeat(depth);
    let width = fields.iter().filter(|(_, value)| !value.is_object()).map(|(name, _)| name.len()).max().unwrap_or(0);
    let rank = |name: &str, order: &[&str]| order.iter().position(|known| *known == name).unwrap_or(order.len());
    let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
    sorted.sort_by_key(|(name, value)| {
        let has_parts = value.is_object();
        (has_parts, rank(name, if has_parts { &PARTS } else { &ORDER }), *name)
    });
    for (name, value) in sorted {
        let shown = name.replace('_', " ");
        // Writing to a string cannot fail.
        let _ = match value {
            Value::Object(parts) => {
                let units = Units { block: units.block, pages: name == "pages" };
                writeln!(out, "{indent}{shown}:").map(|()| lines(out, parts, &units, depth + 1))
            }
            other => writeln!(out, "{indent}{shown:width$}  {}", with_size(name, other, units)),
        };
    }
}

/// A value, and behind a number that counts bytes, blocks or pages, how much that is.
fn with_size(name: &str, value: &Value, units: &Units) -> String {
    let size = value.as_u64().and_then(|number| units.bytes(name, number)).filter(|bytes| *bytes >= 1024);
    match size {
        Some(bytes) => format!("{} ({})", plain(value), size::human(bytes)),
        None => plain(value),
    }
}

pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "-".into(),
        Value::String(text) => printable(text.as_bytes()),
        Value::Array(items) if items.is_empty() => "-".into(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_aligned_lines() {
        let value = serde_json::json!({
            "label": "", "block_size": 4096, "blocks": 25600, "state": "clean", "sparkles": true,
                "features": ["extents", "dir_index"],
            "journal": {"blocks": 1024, "uuid": null, "bytes": 4_194_304, "dirty": false}, "pages": {"total": 3,
                "free": 0}
        });
        let Value::Object(fields) = value else { unreachable!() };
        let expected = "\
label       -
state       clean
block size  4096
blocks      25600 (100 MiB)
features    extents dir_index
sparkles    yes
journal:
  uuid    -
  dirty   no
  blocks  1024 (4 MiB)
  bytes   4194304 (4 MiB)
pages:
  total  3 (12 KiB)
  free   0
";
        assert_eq!(text(&fields), expected);
    }
}
