//! What each figure measures.

use super::access::{PAGE, Sum, Taken, Way, chunks, interleaved, map, parts};
use super::figure::{Figure, Row};
use super::rig::{Rig, System, failed};
use crate::BenchError;
use crate::error::Context;
use crate::interrupt::Interrupt;
use crate::stats::Spread;
use memmap2::Advice;
use ondol::{File, Map, Prefault, View};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A figure that can be drawn.
pub(super) struct Drawable {
    pub(super) number: u32,
    pub(super) title: &'static str,
    pub(super) draw: fn(&Rig, u32, &Interrupt) -> Result<Figure, BenchError>,
}

pub(super) const FIGURES: [Drawable; 8] = [
    Drawable { number: 1, title: "what a page fault costs", draw: one },
    Drawable { number: 2, title: "reading in order, 16 bytes at a time", draw: two },
    Drawable { number: 3, title: "where the time goes, with buffers of 64 KiB", draw: three },
    Drawable { number: 4, title: "4 MiB in order", draw: four },
    Drawable { number: 5, title: "4 MiB at random, of which a part is touched", draw: five },
    Drawable { number: 6, title: "opened, read in order, closed", draw: six },
    Drawable { number: 7, title: "4 KiB anywhere (not in the paper)", draw: seven },
    Drawable { number: 8, title: "stores made durable (not in the paper)", draw: super::commits::eight },
];

/// Bytes of buffers.
const BUFFERS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

pub(super) fn figure(
    number: usize,
    unit: &'static str,
    columns: Vec<String>,
    rows: Vec<Row>,
    paper: &'static str,
) -> Figure {
    let title = FIGURES[number - 1].title;
    Figure { number: number as u32, title, unit, paper, columns, rows, notes: Vec::new() }
}

fn row(name: impl Into<String>, values: impl IntoIterator<Item = Option<Spread>>) -> Row {
    Row { name: name.into(), values: values.into_iter().collect() }
}

pub(super) fn per(value: Spread, count: f64) -> Spread {
    Spread { median: value.median / count, low: value.low / count, high: value.high / count }
}

/// None to nothing.
fn ratio(of: Spread, to: Spread) -> Option<Spread> {
    (to.median > 0.0).then(|| Spread::exactly(of.median / to.median))
}

/// What entering a page costs by faults and by calls, without what mapping costs.
fn one(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    const AT_ONCE: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
    let (count, path) = (rig.sizes.short, rig.systems()[0].path());
    let all: Vec<usize> = (0..count).collect();
    let (side, apart) = (rig.file("side")?, rig.file("apart")?);
    let mut ways = faulting(&side, &apart, &all);
    let by_calls = ways.len();
    for n in AT_ONCE {
        let name = format!("calls for {n} side by side (the kernel enters 16 with the first page of them)");
        ways.push(Way::new(name, move || entered(path, count, Some(n))));
    }
    let mappings = ways.len();
    for file in [&apart, &side] {
        ways.push(Way::new("mapping alone", move || touched(file, Prefault::Plain, &[]).map(|_| None)));
    }
    ways.push(Way::new("mapping alone", move || entered(path, count, None)));
    let taken = interleaved(&mut ways, rounds, interrupt)?;
    let each = |at: usize| {
        let mapping = if at < by_calls { at / EACH } else { 2 };
        per(less(taken[at].time, taken[mappings + mapping].time), count as f64 / 1000.0)
    };
    let rows =
        ways[..mappings].iter().enumerate().map(|(at, way)| row(&way.name, [Some(each(at)), ratio(each(at), each(0))]));
    let columns = ["ns for each page", "of a fault of one page"].map(String::from).to_vec();
    let paper = "a fault is 42 % change of mode, 14 % checks, 32 % search, 12 % entry, so that n at once gain n / \
                 (0.88 + 0.12 n), up to 8.3";
    Ok(figure(1, "1024 pages, without mapping", columns, rows.collect(), paper))
}

/// Maps a file of another file system and has its first pages entered, so many with a call.
fn entered(path: &Path, count: usize, at_once: Option<usize>) -> Result<Option<Sum>, BenchError> {
    let map = map(path, false)?;
    let Some(n) = at_once else { return Ok(None) };
    for at in (0..count.min(map.len() / PAGE)).step_by(n) {
        map.advise_range(Advice::PopulateRead, at * PAGE, n * PAGE).context(|| path.display().to_string())?;
    }
    Ok(None)
}

/// What something takes beside another.
fn less(whole: Spread, part: Spread) -> Spread {
    let less = |value: f64| (value - part.median).max(0.0);
    Spread { median: less(whole.median), low: less(whole.low), high: less(whole.high) }
}

/// A map that is one.
fn mapped_whole(file: &File, prefault: Prefault) -> Result<Map, BenchError> {
    let map = file.map_with(prefault).map_err(failed)?;
    if map.is_copied() { Err(BenchError::Unfit("a file could not be mapped".into())) } else { Ok(map) }
}

/// A view that is none of copies.
fn lent(file: &File, at: u64, len: usize) -> Result<View, BenchError> {
    let view = file.view(at..at + len as u64).map_err(failed)?;
    if view.copied() > 0 { Err(BenchError::Unfit("pages could not be lent".into())) } else { Ok(view) }
}

/// Makes a map, and touches pages of it.
fn touched(file: &File, prefault: Prefault, which: &[usize]) -> Result<Option<Sum>, BenchError> {
    let map = mapped_whole(file, prefault)?;
    let touch = |page: &usize| map.get(page * PAGE..page * PAGE + 16).map_or(0, chunks);
    Ok(Some(which.iter().map(touch).fold(0, u64::wrapping_add)))
}

/// All chunks of the long file of a system, by system calls. Nothing is done with them unless they are used.
fn by_calls(system: &System, len: usize, buffer: usize, uses: bool) -> Result<Option<Sum>, BenchError> {
    let file = fs::File::open(system.path()).context(|| system.path().display().to_string())?;
    let read = |buffer: &mut [u8], at| file.read_at(buffer, at).context(|| system.path().display().to_string());
    all_parts(len, buffer, read, uses)
}

/// The same of ours, in this process.
fn in_process(file: &File, len: usize, buffer: usize, uses: bool) -> Result<Option<Sum>, BenchError> {
    all_parts(len, buffer, |buffer, at| file.read_at(buffer, at).map_err(failed), uses)
}

fn all_parts(
    len: usize,
    buffer: usize,
    read: impl FnMut(&mut [u8], u64) -> Result<usize, BenchError>,
    uses: bool,
) -> Result<Option<Sum>, BenchError> {
    let mut sum: Sum = 0;
    parts(len, &mut vec![0; buffer], read, |bytes| {
        if uses {
            sum = sum.wrapping_add(chunks(bytes));
        }
    })?;
    Ok(uses.then_some(sum))
}

/// The same through views of so many bytes each.
fn viewed(file: &File, len: usize, at_once: usize, uses: bool) -> Result<Option<Sum>, BenchError> {
    let mut sum: Sum = 0;
    for at in (0..len as u64).step_by(at_once) {
        let view = lent(file, at, at_once)?;
        for slice in view.slices() {
            sum = sum.wrapping_add(used(slice, uses));
        }
    }
    Ok(uses.then_some(sum))
}

/// All chunks of something that is there without a copy, or one byte of each page.
fn used(bytes: &[u8], uses: bool) -> Sum {
    if uses {
        return chunks(bytes);
    }
    std::hint::black_box(bytes.chunks(PAGE).fold(0_u8, |sum, page| sum.wrapping_add(page[0])));
    0
}

/// The ways that need no buffer, of the long file.
fn mapped<'r>(rig: &'r Rig, ours: &'r File, uses: bool) -> Vec<Way<'r>> {
    let mut ways = Vec::new();
    for system in rig.systems() {
        let whole = move |populate| {
            let sum = used(&map(system.path(), populate)?, uses);
            Ok(uses.then_some(sum))
        };
        ways.push(Way::new(format!("{}: mmap", system.name), move || whole(false)));
        if system.name == rig.systems()[0].name {
            ways.push(Way::new(format!("{}: mmap, populated", system.name), move || whole(true)));
        }
    }
    for (name, prefault) in PREFAULTS {
        ways.push(Way::new(format!("ondol, in process: map, {name}"), move || {
            let map = mapped_whole(ours, prefault)?;
            let part = |at: usize| map.get(at..at + PAGE).map_or(0, |page| used(page, uses));
            let sum = (0..map.len()).step_by(PAGE).map(part).fold(0, u64::wrapping_add);
            Ok(uses.then_some(sum))
        }));
    }
    ways
}

const PREFAULTS: [(&str, Prefault); 4] = [
    ("faults", Prefault::Plain),
    ("populated", Prefault::Populate),
    ("windows of 4 to 16", Prefault::PAPER),
    ("windows of 16 to 512", Prefault::LONG),
];

/// The ways that read so many bytes at a time.
fn buffered<'r>(rig: &'r Rig, ours: &'r File, buffer: usize, uses: bool) -> Vec<Way<'r>> {
    let len = rig.sizes.long;
    let calls = rig
        .systems()
        .iter()
        .map(move |system| Way::new(format!("{}: read", system.name), move || by_calls(system, len, buffer, uses)));
    let in_process = Way::new("ondol, in process: read", move || in_process(ours, len, buffer, uses));
    let viewed = Way::new("ondol, in process: view", move || viewed(ours, len, buffer, uses));
    calls.chain([in_process, viewed]).collect()
}

fn two(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    let ours = rig.file("long")?;
    let mut rows: Vec<Row> = Vec::new();
    for buffer in BUFFERS {
        let mut ways = buffered(rig, &ours, buffer, true);
        for (at, taken) in interleaved(&mut ways, rounds, interrupt)?.into_iter().enumerate() {
            if rows.len() <= at {
                rows.push(row(&ways[at].name, []));
            }
            rows[at].values.push(Some(milliseconds(taken)));
        }
    }
    let mut ways = mapped(rig, &ours, true);
    let taken = interleaved(&mut ways, rounds, interrupt)?;
    rows.extend(
        ways.iter()
            .zip(taken)
            .map(|(way, taken)| row(&way.name, BUFFERS.map(|_| None).into_iter().chain([Some(milliseconds(taken))]))),
    );
    let columns = BUFFERS.iter().map(|bytes| format!("{} KiB", bytes >> 10)).chain(["no buffer".into()]).collect();
    Ok(figure(
        2,
        "ms for all of the long file",
        columns,
        rows,
        "mmap is always faster than read, by little with small buffers",
    ))
}

fn milliseconds(taken: Taken) -> Spread {
    per(taken.time, 1000.0)
}

fn three(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    const BUFFER: usize = 64 << 10;
    let ours = rig.file("long")?;
    let all = |uses| buffered(rig, &ours, BUFFER, uses).into_iter().chain(mapped(rig, &ours, uses)).collect::<Vec<_>>();
    let (mut whole, mut bare) = (all(true), all(false));
    let used = interleaved(&mut whole, rounds, interrupt)?;
    let got = interleaved(&mut bare, rounds, interrupt)?;
    let rows = whole.iter().zip(used.iter().zip(&got)).map(|(way, (used, got))| {
        let (used_ms, got_ms) = (milliseconds(*used), milliseconds(*got));
        let rest = Spread::exactly((used_ms.median - got_ms.median).max(0.0));
        row(&way.name, [Some(used_ms), Some(got_ms), Some(rest), Some(Spread::exactly(used.faults as f64))])
    });
    let columns = ["all", "getting at it: calls, copies, faults", "the rest: using it", "faults counted"];
    let columns = columns.map(String::from).to_vec();
    Ok(figure(
        3,
        "ms for all of the long file",
        columns,
        rows.collect(),
        "with read, bytes that were just copied are used faster; faults are most of what mmap takes",
    ))
}

/// Ways of each of two files: apart, then side by side.
const EACH: usize = 4;

/// The ways of figures 4 and 5: pages apart, where a fault enters one, and side by side, where the kernel enters 16.
fn faulting<'r>(side: &'r File, apart: &'r File, which: &'r [usize]) -> Vec<Way<'r>> {
    let way = |name: &str, file: &'r File, prefault| Way::new(name, move || touched(file, prefault, which));
    vec![
        way("faults, each of one page (pages apart)", apart, Prefault::Plain),
        way("populated (pages apart)", apart, Prefault::Populate),
        way("windows of 4 to 16 (pages apart)", apart, Prefault::PAPER),
        way("windows of 16 to 512 (pages apart)", apart, Prefault::LONG),
        way("faults, the kernel's 16 pages (side by side)", side, Prefault::Plain),
        way("populated (side by side)", side, Prefault::Populate),
        way("windows of 4 to 16 (side by side)", side, Prefault::PAPER),
        way("windows of 16 to 512 (side by side)", side, Prefault::LONG),
    ]
}

fn four(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    let (side, apart) = (rig.file("side")?, rig.file("apart")?);
    let all: Vec<usize> = (0..rig.sizes.short).collect();
    let mut ways = faulting(&side, &apart, &all);
    let count = ways.len();
    for file in [&apart, &side] {
        ways.push(Way::new("mapping alone", move || touched(file, Prefault::Plain, &[]).map(|_| None)));
    }
    let taken = interleaved(&mut ways, rounds, interrupt)?;
    let entering = |at: usize| less(taken[at].time, taken[count + at / EACH].time);
    let rows = ways[..count].iter().enumerate().map(|(at, way)| {
        let faults = Spread::exactly(taken[at].faults as f64);
        let times = [Some(taken[at].time), Some(entering(at)), ratio(entering(at), entering(0))];
        row(&way.name, times.into_iter().chain([Some(faults)]))
    });
    let columns = ["µs, mapping included", "without mapping", "of faults of one page", "faults counted"];
    let columns = columns.map(String::from).to_vec();
    let paper = "populate takes 40 % of plain faults, windows 20 % (computed, not measured)";
    Ok(figure(4, "all pages of 4 MiB", columns, rows.collect(), paper))
}

fn five(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    let (side, apart) = (rig.file("side")?, rig.file("apart")?);
    let count = rig.sizes.short;
    // Every page once, in an order that has none.
    let random: Vec<usize> = (0..count).map(|n| n * 397 % count).collect();
    let percents = [5, 10, 20, 40, 60, 80, 100];
    let mut columns: Vec<String> = percents.iter().map(|percent| format!("{percent} %")).collect();
    let mut orders: Vec<Vec<usize>> = percents.iter().map(|percent| random[..count * percent / 100].to_vec()).collect();
    columns.push("one of each 16".into());
    orders.push((0..count).step_by(16).collect());
    let mut rows: Vec<Row> = Vec::new();
    for which in &orders {
        let mut ways = faulting(&side, &apart, which);
        for (at, taken) in interleaved(&mut ways, rounds, interrupt)?.into_iter().enumerate() {
            if rows.len() <= at {
                rows.push(row(&ways[at].name, []));
            }
            rows[at].values.push(Some(taken.time));
        }
    }
    let mut figure = figure(
        5,
        "µs, mapping included",
        columns,
        rows,
        "windows are better than populate always, and than plain faults from 20 % on; populate from 40 % on",
    );
    figure.notes = vec![
        better(&figure, 2, 0),
        better(&figure, 3, 0),
        better(&figure, 1, 0),
        better(&figure, 2, 1),
        better(&figure, 3, 2),
        better(&figure, EACH + 2, EACH),
        better(&figure, EACH + 3, EACH),
        better(&figure, EACH + 2, EACH + 1),
        better(&figure, EACH + 3, EACH + 2),
    ];
    Ok(figure)
}

/// In which columns one row takes less than another.
fn better(figure: &Figure, one: usize, other: usize) -> String {
    let (one, other) = (&figure.rows[one], &figure.rows[other]);
    let medians =
        |row: &Row| row.values.iter().map(|value| value.map_or(f64::NAN, |value| value.median)).collect::<Vec<_>>();
    let less = medians(one).into_iter().zip(medians(other)).map(|(one, other)| one < other);
    let columns: Vec<&str> =
        figure.columns.iter().zip(less).filter(|(_, less)| *less).map(|(name, _)| name.as_str()).collect();
    let columns = if columns.is_empty() { "nowhere".to_owned() } else { columns.join(", ") };
    format!("{} take less than {}: {columns}", one.name, other.name)
}

/// As programs do it: the kernel has none of the file in its cache.
fn six(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    const BUFFER: usize = 64 << 10;
    let ours = rig.file("long")?;
    let len = rig.sizes.long;
    let mut ways = Vec::new();
    for system in rig.systems() {
        let forget = move || {
            let file = fs::File::open(system.path()).context(|| system.path().display().to_string())?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).context(|| "dropping what is cached")
        };
        let read = Way::new(format!("{}: read", system.name), move || by_calls(system, len, BUFFER, true));
        let mapped = Way::new(format!("{}: mmap", system.name), move || Ok(Some(chunks(&map(system.path(), false)?))));
        ways.extend([read.after(forget), mapped.after(forget)]);
    }
    let in_process = buffered(rig, &ours, BUFFER, true).into_iter().chain(mapped(rig, &ours, true));
    ways.extend(in_process.filter(|way| way.name.contains("in process")));
    let taken = interleaved(&mut ways, rounds, interrupt)?;
    let to = ways.iter().position(|way| way.name.starts_with("kernel ext4")).unwrap_or(0);
    let rows = ways.iter().zip(&taken).map(|(way, one)| {
        row(
            &way.name,
            [Some(milliseconds(*one)), ratio(one.time, taken[to].time), Some(Spread::exactly(one.faults as f64))],
        )
    });
    let columns = vec!["ms".into(), format!("of {}", ways[to].name), "faults counted".into()];
    Ok(figure(
        6,
        "the long file, 16 bytes at a time",
        columns,
        rows.collect(),
        "its framework is faster than ext4, tmpfs and PRAMFS",
    ))
}

/// What a database does: anywhere in the long file, and in a part of it that the processor's caches hold.
fn seven(rig: &Rig, rounds: u32, interrupt: &Interrupt) -> Result<Figure, BenchError> {
    let mut rows: Vec<Row> = Vec::new();
    for pages in [rig.sizes.long / PAGE, 64] {
        let places: Vec<u64> = (0..PLACES).map(|n| (n.wrapping_mul(7919) % pages * PAGE) as u64).collect();
        let ours = rig.file("long")?;
        let mut ways = anywhere(rig, &ours, &places)?;
        let taken = interleaved(&mut ways, rounds, interrupt)?;
        for (at, (way, one)) in ways.iter().zip(&taken).enumerate() {
            if rows.len() <= at {
                rows.push(row(&way.name, []));
            }
            let each = per(one.time, PLACES as f64 / 1000.0);
            rows[at].values.extend([Some(each), ratio(taken[0].time, one.time)]);
        }
    }
    let columns = ["anywhere", "times as fast as tmpfs", "in 256 KiB", "times as fast as tmpfs"];
    let columns = columns.map(String::from).to_vec();
    Ok(figure(7, "ns for 4 KiB, all of it used", columns, rows, "has none"))
}

/// So many pages are read in a round.
const PLACES: usize = 10_000;

fn anywhere<'r>(rig: &'r Rig, ours: &'r File, places: &'r [u64]) -> Result<Vec<Way<'r>>, BenchError> {
    let mut ways = Vec::new();
    for system in rig.systems() {
        let file = fs::File::open(system.path()).context(|| system.path().display().to_string())?;
        ways.push(Way::new(format!("{}: pread", system.name), move || {
            let read = |buffer: &mut [u8], at| file.read_at(buffer, at).context(|| "reading a page");
            copied(places, read)
        }));
    }
    ways.push(Way::new("ondol, in process: read", move || {
        copied(places, |buffer, at| ours.read_at(buffer, at).map_err(failed))
    }));
    ways.push(Way::new("ondol, in process: view", move || {
        let mut sum: Sum = 0;
        for at in places {
            let view = lent(ours, *at, PAGE)?;
            sum = view.slices().map(chunks).fold(sum, u64::wrapping_add);
        }
        Ok(Some(sum))
    }));
    let all = mapped_whole(ours, Prefault::Populate)?;
    ways.push(Way::new("ondol, in process: a map that is kept", move || {
        let part = |at: &u64| all.get(*at as usize..*at as usize + PAGE).map_or(0, chunks);
        Ok(Some(places.iter().map(part).fold(0, u64::wrapping_add)))
    }));
    Ok(ways)
}

fn copied(
    places: &[u64],
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, BenchError>,
) -> Result<Option<Sum>, BenchError> {
    let (mut buffer, mut sum): (_, Sum) = ([0; PAGE], 0);
    for at in places {
        let got = read(&mut buffer, *at)?;
        sum = sum.wrapping_add(chunks(&buffer[..got]));
    }
    Ok(Some(sum))
}
