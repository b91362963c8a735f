//! `ondol pool`: makes NVM pools, looks at them, measures them and puts them in order.

use crate::args;
use crate::failure::{FAILED, Failure, Outcome, USAGE};
use crate::say::{self, say};
use crate::tools::minute;
use crate::{image, info};
use ondol::LocalBatch;
use ondol::pool::{self, CreateOptions, GivenUp, Head, MeasureOptions, PoolCosts};
use ondol::printable;
use serde_json::{Map, Value};
use std::fmt::Write;
use std::process::ExitCode;

/// Dispatches to its commands.
pub(crate) fn pool(command: &args::Pool) -> Outcome {
    match command {
        args::Pool::Create(args) => create(args),
        args::Pool::Info(args) => show(args),
        args::Pool::Dump(args) => dump(args),
        args::Pool::Flatten(args) => flatten(args),
        args::Pool::Measure(args) => measure(args),
    }
}

fn create(args: &args::PoolCreate) -> Outcome {
    let name = args.pool.display();
    let mut options = CreateOptions::new().domain(args.domain).force(args.force);
    match args.size {
        Some(size) => options = options.size(size),
        None if !args.pool.exists() => {
            return Err(Failure::new(USAGE, format!("there is no {name}; --size SIZE makes a pool of that size")));
        }
        None => {}
    }
    // What cannot be looked at is said, or refused, by what follows.
    let had = if args.force { GivenUp::in_pool(&args.pool).unwrap_or_default() } else { GivenUp::default() };
    let made = pool::create(&args.pool, &options).map_err(|e| image::hint(e, "a pool"))?;
    image::tell_lost(&args.pool, &had);
    say!("{name}: {} bytes, {} ({}); {}", made.size, made.medium, made.domain, made.survives);
    Ok(ExitCode::SUCCESS)
}

fn show(args: &args::PoolInfo) -> Outcome {
    let value = if ondol::is_local_log(&args.pool) {
        // Zeros are a log that nobody has used yet, and do not look like one.
        serde_json::to_value(ondol::local_log(&args.pool).map_err(Failure::with(FAILED))?.unwrap_or_default())
    } else {
        serde_json::to_value(pool::info(&args.pool).map_err(Failure::with(FAILED))?)
    };
    let value = value.map_err(Failure::with(FAILED))?;
    if args.json {
        say::json(&value);
    } else if let Value::Object(fields) = value {
        say::lines(&text(fields));
    }
    Ok(ExitCode::SUCCESS)
}

/// One line for each field, then one for each header and area.
fn text(mut fields: Map<String, Value>) -> String {
    let tables = [("header", "headers"), ("area", "areas"), ("file", "run_files")];
    let tables = tables.map(|(title, name)| (title, fields.remove(name)));
    let mut out = info::text(&fields);
    for (title, table) in tables {
        for row in table.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
            let cells: Vec<String> = row.iter().map(|(name, value)| format!("{name} {}", info::plain(value))).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{title}: {}", cells.join(", "));
        }
    }
    out
}

fn dump(args: &args::PoolDump) -> Outcome {
    let mut show = |batch: LocalBatch| -> std::io::Result<()> {
        say::lines(&changes(&batch));
        Ok(())
    };
    if ondol::is_local_log(&args.pool) {
        ondol::local_log_batches(&args.pool, &mut show).map_err(Failure::with(FAILED))?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = pool::dump(&args.pool).map_err(Failure::with(FAILED))?;
    for head in &found.heads {
        say::lines(&hex(head));
    }
    found.info.map_err(|what| Failure::new(FAILED, what))?;
    ondol::local_log_batches_in_pool(&args.pool, &mut show).map_err(Failure::with(FAILED))?;
    Ok(ExitCode::SUCCESS)
}

/// A batch of a local log: a line for it, and one for each range of bytes that it changes.
fn changes(batch: &LocalBatch) -> String {
    let of = |ranges: &[(u64, u64)]| ranges.iter().fold(0, |sum: u64, (_, len)| sum.saturating_add(*len));
    let mut out = format!(
        "batch {} of {}: {} bytes written, {} bytes deleted\n",
        batch.number,
        minute(batch.time),
        of(&batch.writes),
        of(&batch.discards)
    );
    for (word, ranges) in [("write", &batch.writes), ("delete", &batch.discards)] {
        for (at, len) in ranges {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {word} {len} bytes at {at}");
        }
    }
    out
}

fn flatten(args: &args::PoolFlatten) -> Outcome {
    let done = pool::flatten(&args.pool).map_err(Failure::with(FAILED))?;
    if args.json {
        say::json(&serde_json::to_value(&done).map_err(Failure::with(FAILED))?);
    } else {
        let pool::FlattenedPool { mapped, moved, copied, extents_before, extents, .. } = done;
        let name = printable(done.pool.as_bytes());
        say!(
            "{name}: {moved} of {mapped} blocks moved, {copied} pages copied; {extents} ranges of neighbours, \
             {extents_before} before"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &args::PoolMeasure) -> Outcome {
    let options = MeasureOptions::new().domain(args.domain).model(args.nvm_model);
    let costs = pool::measure(&args.pool, &options).map_err(Failure::with(FAILED))?;
    if args.json {
        say::json(&serde_json::to_value(&costs).map_err(Failure::with(FAILED))?);
    } else {
        say::lines(&table(&costs));
    }
    Ok(ExitCode::SUCCESS)
}

/// What it is, then one line for each operation.
fn table(costs: &PoolCosts) -> String {
    let PoolCosts { pool, medium, domain, survives, write_back, model, start, len, clock_ns, .. } = costs;
    let mut out = format!("{}: {medium} ({domain}); {survives}\n", printable(pool.as_bytes()));
    out += &format!(
        "measured in {len} free bytes at {start}, model {model}; write-backs by {write_back} where the domain asks \
         for them; the clock takes {clock_ns} ns of each time\n\n"
    );
    let titles = ["median ns", "p99 ns", "lines", "fences", "stored", "copied", "read", "times"];
    let row = |name: &str, cells: [String; 8]| {
        let [median, p99, lines, fences, rest @ ..] = cells;
        let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>7}")).collect();
        format!("{name:35}{median:>11}{p99:>10}{lines:>7}{fences:>8}{}\n", rest.concat())
    };
    out += &row("", titles.map(str::to_owned));
    for c in &costs.costs {
        let stored = [c.stored_bytes, c.copied_bytes, c.read_bytes, c.repetitions];
        let [stored, copied, read, times] = stored;
        let cells = [c.median_ns, c.p99_ns, c.lines, c.fences, stored, copied, read, times];
        out += &row(c.operation, cells.map(|n| n.to_string()));
    }
    out
}

/// As `hexdump -C` has it: lines of sixteen bytes, equal ones after the first as a star.
fn hex(head: &Head) -> String {
    let mut out = format!("{} at byte {}\n", head.title, head.offset);
    let bytes = match &head.bytes {
        Ok(bytes) => bytes,
        Err(what) => return out + "  " + &printable(what.as_bytes()) + "\n",
    };
    let (mut before, mut starred) = (None, false);
    for (row, offset) in bytes.chunks(16).zip((head.offset..).step_by(16)) {
        if before == Some(row) {
            out.push_str(if starred { "" } else { "*\n" });
            starred = true;
            continue;
        }
        (before, starred) = (Some(row), false);
        let digits: Vec<String> = row.iter().map(|b| format!("{b:02x}")).collect();
        let letters: String = row.iter().map(|b| if (32..127).contains(b) { char::from(*b) } else { '.' }).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{offset:08x}  {:47}  |{letters}|", digits.join(" "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_shown_by_what_it_changes() {
        let (writes, discards) = (vec![(0, 4096), (1 << 30, 8192)], vec![(u64::MAX, u64::MAX), (0, 1)]);
        let text = changes(&LocalBatch { number: 7, time: 60, writes, discards });
        let expected = format!(
            "batch 7 of 1970-01-01 00:01: 12288 bytes written, {0} bytes deleted\n  write 4096 bytes at 0\n  \
             write 8192 bytes at 1073741824\n  delete {0} bytes at {0}\n  delete 1 bytes at 0\n",
            u64::MAX
        );
        assert_eq!(text, expected);
        // A time that no clock has.
        for time in [i64::MIN, i64::MAX] {
            assert!(changes(&LocalBatch { number: 1, time, writes: vec![], discards: vec![] }).contains("batch 1 of "));
        }
    }

    #[test]
    fn bytes_are_shown_like_hexdump() {
        let bytes = [&b"ONDOLPL\0--------"[..], &[0; 48], &[255; 3]].concat();
        let text = hex(&Head { title: "area x".into(), offset: 4096, bytes: Ok(bytes) });
        let expected = "area x at byte 4096\n\
            00001000  4f 4e 44 4f 4c 50 4c 00 2d 2d 2d 2d 2d 2d 2d 2d  |ONDOLPL.--------|\n\
            00001010  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  |................|\n\
            *\n\
            00001040  ff ff ff                                         |...|\n";
        assert_eq!(text, expected);
    }
}
