//! What operations are promised and what they spend. An operation that needs more than it was planned with panics
//! wherever tests run (`debug_assertions`); here every operation meets every engine, data mode and kind of image at the
//! thresholds of the code, on journals so small that a promise far above what is spent is refused as too big.

use crate::file_util::{Random, Rig, mkfs, mount};
use crate::transaction_util::{append, create, find, remove_file, rename, set_len, set_xattr, write_at};
use ondol_env::sync::{Arc, Mutex};
use ondol_format::inode::InodeFlags;
use ondol_format::xattr::VALUE_MAX;
use ondol_testkit::over_setups;
use ondol_testkit::rig::Setup;
use ondol_testkit::thresholds::{self, Counts, Geometry};
use ondol_volume::{
    Caller, CopyRange, Error, Exchange, Fallocate, Ino, ROOT, Rename, Result, SetAttr, SetXattr, Step, Volume,
};
use std::collections::BTreeMap;

over_setups! {
    extents,
    small_groups,
    block_maps,
    clusters,
    inline_data,
    inline_data_and_values_in_inodes,
    values_in_inodes,
    pages,
    no_checksums,
    what_is_changed_again_is_promised_once,
    long_overwrites_that_go_home_are_promised_nothing,
}

const USER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn extents() {
    hunt(&["-b", "1024", "-J", "size=1"], 1);
}

fn small_groups() {
    hunt(&["-b", "1024", "-J", "size=1", "-g", "256", "-O", "^flex_bg"], 2);
}

fn block_maps() {
    hunt(&["-b", "1024", "-J", "size=1", "-O", "^extent,^64bit"], 3);
}

fn clusters() {
    hunt(&["-b", "1024", "-J", "size=1", "-O", "bigalloc", "-C", "8192"], 4);
}

fn inline_data() {
    hunt(&["-b", "1024", "-J", "size=1", "-O", "inline_data"], 5);
}

fn inline_data_and_values_in_inodes() {
    hunt(&["-b", "1024", "-J", "size=1", "-I", "512", "-O", "inline_data,ea_inode"], 6);
}

fn values_in_inodes() {
    hunt(&["-b", "1024", "-J", "size=1", "-O", "ea_inode"], 7);
}

fn pages() {
    hunt(&["-b", "4096", "-J", "size=4", "-O", "inline_data"], 8);
}

fn no_checksums() {
    hunt(&["-b", "2048", "-J", "size=2", "-O", "^metadata_csum,^flex_bg,ea_inode"], 9);
}

/// One operation's promise and what it spent: journal blocks, and clusters.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    journal: u64,
    used: u64,
    clusters: u64,
    left: u64,
}

/// Notes the promises of the operations of this thread.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<Promise>>>);

impl tracing::field::Visit for Promise {
    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        match field.name() {
            "journal" => self.journal = value,
            "used" => self.used = value,
            "clusters" => self.clusters = value,
            "left" => self.left = value,
            other => panic!("{other}"),
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, _: &dyn std::fmt::Debug) {}
}

impl tracing::Subscriber for Watch {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "ondol::promise"
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut promise = Promise::default();
        event.record(&mut promise);
        self.0.lock().push(promise);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

/// Files and directories that the operations work on, and what they draw their sizes from.
struct Drive {
    rig: Rig,
    random: Random,
    files: Vec<Ino>,
    dir: Ino,
    bytes: Vec<u64>,
    values: Vec<u64>,
    targets: Vec<u64>,
    made: u64,
}

/// Longest change, bytes: several operations of a small journal.
const LONGEST: u64 = 600_000;

impl Drive {
    fn new(args: &[&str], seed: u64) -> Self {
        let rig = mount(mkfs("48M", args, 0));
        let files = (0..4)
            .map(|n| rig.vol.names().create(ROOT, format!("f{n}").as_bytes(), 0o644, USER).unwrap().ino)
            .collect();
        let dir = rig.vol.names().mkdir(ROOT, b"d", 0o755, USER).unwrap().ino;
        let bytes = thresholds::bytes(LONGEST);
        let (values, targets) = (thresholds::values(65_536), thresholds::targets(4095));
        Self { rig, random: Random(seed), files, dir, bytes, values, targets, made: 0 }
    }

    fn of(&mut self, pool: &[u64]) -> u64 {
        pool[self.random.below(pool.len() as u64) as usize]
    }

    /// Mostly small: what lies in inodes leaves them at the first larger size, and is then never small again.
    fn size(&mut self) -> u64 {
        let pool = self.bytes.clone();
        let most = [200, 5000, LONGEST][self.random.below(3) as usize];
        let upto = pool.partition_point(|&size| size <= most);
        self.of(&pool[..upto])
    }

    fn file(&mut self) -> Ino {
        self.files[self.random.below(4) as usize]
    }

    /// One call, by a name for it.
    fn call(&mut self) -> (&'static str, Result<()>) {
        let (at, len, ino) = (self.size() - 1, self.size(), self.file());
        let other = self.file();
        let bytes = self.random.bytes(len as usize);
        let place = if self.random.below(3) == 0 { 0 } else { at };
        match self.random.below(26) {
            0..=2 => ("write", self.rig.vol.files().write(ino, place, &bytes).map(drop)),
            3 => ("append", self.rig.vol.files().append(ino, &bytes).map(drop)),
            4 | 5 => ("truncate", self.rig.vol.files().truncate(ino, len)),
            6..=9 => self.fallocate(ino, place, len),
            10 | 11 => (
                "copy",
                self.rig.vol.ranges().copy_range(ino, other, CopyRange { from: 0, to: place, len }, true).map(drop),
            ),
            12 => ("scatter", self.scatter(ino)),
            13 | 14 => self.xattr(ino),
            15 => ("chattr", self.chattr(ino)),
            16 => ("anew", self.anew()),
            17..=19 => self.names(),
            20 => {
                let set = SetAttr { perm: Some(0o640), uid: Some(7), ..SetAttr::default() };
                ("setattr", self.rig.vol.inode_ops().setattr(ino, &set).map(drop))
            }
            21 | 22 => ("exchange", self.exchange(ino, other, len)),
            _ => ("transaction", self.transaction()),
        }
    }

    fn fallocate(&mut self, ino: Ino, at: u64, len: u64) -> (&'static str, Result<()>) {
        use Fallocate::{Allocate, CollapseRange, InsertRange, KeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
        let all = [Allocate, KeepSize, PunchHole, PunchHole, ZeroRange, ZeroRangeKeepSize, CollapseRange, InsertRange];
        let how = all[self.random.below(all.len() as u64) as usize];
        let unit = u64::from(self.rig.vol.cluster_size());
        let whole = matches!(how, CollapseRange | InsertRange);
        let (at, len) = if whole { (at / unit * unit, len.next_multiple_of(unit)) } else { (at, len) };
        let name = match how {
            Allocate | KeepSize => "allocate",
            PunchHole => "punch",
            ZeroRange | ZeroRangeKeepSize => "zero",
            CollapseRange => "collapse",
            InsertRange => "insert",
        };
        (name, self.rig.vol.files().fallocate(ino, how, at, len))
    }

    /// Whole files, or what both have of a range, all of it or what is written.
    fn exchange(&mut self, ino: Ino, other: Ino, len: u64) -> Result<()> {
        let v = &self.rig.vol;
        let unit = u64::from(v.cluster_size());
        let how = Exchange { written_only: self.random.below(3) == 0, kill_suid: true, ..Exchange::default() };
        if self.random.below(3) == 0 {
            return v.ranges().exchange(ino, 0, other, 0, &how);
        }
        let (size, others) = (v.getattr(ino)?.size / unit, v.getattr(other)?.size / unit);
        let (at, to) = (self.random.below(size + 1), self.random.below(others + 1));
        let len = (len / unit).min(size - at).min(others - to) * unit;
        v.ranges().exchange(ino, at * unit, other, to * unit, &Exchange { len: Some(len), ..how })
    }

    /// As many runs as a leaf has room for, and some more.
    fn scatter(&mut self, ino: Ino) -> Result<()> {
        let block = u64::from(self.rig.vol.statfs().block_size);
        let rows = thresholds::all(&Geometry::of_blocks(block as u32));
        let extents: Vec<u64> =
            rows.iter().filter(|row| row.counts == Counts::Extents && row.at < 200).map(|r| r.at).collect();
        let runs = self.of(&extents) + 2;
        let from = self.random.below(300);
        (0..runs).try_for_each(|n| self.rig.vol.files().write(ino, (from + 2 * n) * block, &[1; 10]).map(drop))
    }

    fn xattr(&mut self, ino: Ino) -> (&'static str, Result<()>) {
        let name = [&b"user.a"[..], b"user.b", b"user.c", b"trusted.long"][self.random.below(4) as usize];
        if self.random.below(4) == 0 {
            return ("removexattr", self.rig.vol.xattrs().removexattr(ino, name));
        }
        let pool = self.values.clone();
        let len = self.of(&pool);
        let value = self.random.bytes(len as usize);
        ("setxattr", self.rig.vol.xattrs().setxattr(ino, name, &value, SetXattr::Any))
    }

    fn chattr(&mut self, ino: Ino) -> Result<()> {
        let flags = self.rig.vol.inode_ops().flags(ino)?;
        self.rig.vol.inode_ops().set_flags(ino, flags ^ InodeFlags::JOURNAL_DATA.bits(), u32::MAX)
    }

    /// Another file in the place of one: numbers of inodes come back, now and then as those of values.
    fn anew(&mut self) -> Result<()> {
        let n = self.random.below(4) as usize;
        let name = format!("f{n}");
        if self.random.below(2) == 0 {
            // Its data has once been journaled.
            self.chattr(self.files[n])?;
            self.chattr(self.files[n])?;
        }
        self.rig.vol.names().unlink(ROOT, name.as_bytes())?;
        if self.random.below(2) == 0 {
            let other = self.files[(n + 1) % 4];
            match self.rig.vol.xattrs().setxattr(other, b"user.long", &[1; VALUE_MAX], SetXattr::Any) {
                Err(Error::NoSpace(_)) => {}
                set => set?,
            }
        }
        self.files[n] = self.rig.vol.names().create(ROOT, name.as_bytes(), 0o644, USER)?.ino;
        Ok(())
    }

    fn names(&mut self) -> (&'static str, Result<()>) {
        self.made += 1;
        let long = if self.random.below(3) == 0 { "n".repeat(240) } else { "n".repeat(12) };
        let name = |n: u64| format!("{long}{n:011}").into_bytes();
        let (new, old) = (name(self.made), name(self.made.saturating_sub(self.random.below(4))));
        let pool = self.targets.clone();
        let target = vec![b't'; self.of(&pool) as usize];
        let (v, dir) = (&self.rig.vol, self.dir);
        match self.random.below(9) {
            0..=2 => ("create", v.names().create(dir, &new, 0o644, USER).map(drop)),
            3 => ("mkdir", v.names().mkdir(dir, &new, 0o755, USER).map(drop)),
            4 => ("symlink", v.names().symlink(dir, &new, &target, USER).map(drop)),
            5 => ("link", v.names().link(self.files[0], dir, &new).map(drop)),
            6 => ("rename", v.names().rename(dir, &old, dir, &new, Rename::Replace)),
            7 => ("unlink", v.names().unlink(dir, &old)),
            _ => ("rmdir", v.names().rmdir(dir, &old)),
        }
    }

    fn transaction(&mut self) -> Result<()> {
        self.made += 1;
        let new = format!("/d/{:0230}", self.made);
        let mut steps = vec![create(&new)];
        // As much as is left where all of it is journaled.
        let most = u64::from(self.rig.engine.max_blocks()) * u64::from(self.rig.vol.statfs().block_size) / 6;
        for _ in 0..3 {
            let (at, len) = (self.size().min(most) - 1, self.size().min(most));
            let file = format!("/f{}", self.random.below(4));
            steps.push(match self.random.below(5) {
                0 => set_len(&file, len),
                1 => append(&new, &self.random.bytes(len as usize)),
                2 => set_xattr(&new, "user.x", &self.random.bytes((len as usize).min(700))),
                _ => write_at(&file, at, &self.random.bytes(len as usize)),
            });
        }
        steps.push(if self.random.below(2) == 0 { remove_file(&new) } else { rename(&new, "/d/same") });
        self.rig.vol.apply(&steps, USER).map_err(Error::from)
    }

    /// Keeps the volume far from full, where a promise may be refused for good reason.
    fn make_room(&mut self) {
        let stat = self.rig.vol.statfs();
        if stat.free < stat.blocks / 2 {
            self.files.clone().iter().for_each(|&ino| self.rig.vol.files().truncate(ino, 0).unwrap());
        }
    }
}

/// Nothing that is possible is refused for what it was thought to need.
fn is_right(vol: &Volume, result: &Result<()>) -> bool {
    match result {
        Err(Error::TooBig { .. } | Error::Journal(_) | Error::Corrupt(_) | Error::Block(_)) => false,
        Err(Error::NoSpace(what)) => *what != "blocks" || vol.statfs().free < vol.statfs().blocks / 4,
        // More extents than the journal takes nodes of.
        Err(Error::Unsupported(what)) => !what.contains("moving the extents"),
        _ => true,
    }
}

fn hunt(args: &[&str], seed: u64) {
    let watch = Watch::default();
    tracing::subscriber::with_default(watch.clone(), || {
        let mut drive = Drive::new(args, seed);
        let mut worst: BTreeMap<&str, (u64, Promise)> = BTreeMap::new();
        let (mut done, calls) = (0, 300);
        for n in 0..calls {
            drive.make_room();
            watch.0.lock().clear();
            let (name, result) = drive.call();
            assert!(is_right(&drive.rig.vol, &result), "{:?} {args:?}, call {n}, {name}: {result:?}", Setup::current());
            done += u64::from(result.is_ok());
            for promise in watch.0.lock().drain(..) {
                assert!(promise.used <= promise.journal && promise.left <= promise.clusters, "{name}: {promise:?}");
                let over = promise.journal - promise.used;
                let entry = worst.entry(name).or_default();
                if over >= entry.0 {
                    *entry = (over, promise);
                }
            }
            if n % 100 == 99 {
                drive.rig.vol.sync().unwrap();
            }
        }
        for (name, (_, Promise { journal, used, clusters, left })) in &worst {
            println!("{name}: {journal} journal blocks promised, {used} used; {clusters} clusters, {left} left");
        }
        assert!(done > calls / 3, "only {done} calls succeeded");
        drive.rig.unmount_checked();
    });
}

/// A file of 250 blocks that is home, on a journal that takes 255 at once.
fn long_file() -> Rig {
    let rig = mount(mkfs("16M", &["-b", "1024", "-J", "size=1"], 1));
    rig.vol.files().write(find(&rig.vol, "/f0"), 0, &[1; 250 << 10]).unwrap();
    mount(rig.unmount())
}

fn what_is_changed_again_is_promised_once() {
    let rig = long_file();
    let steps: Vec<Step> = (2..6).map(|n| write_at("/f0", 10 * u64::from(n), &[n; 140 << 10])).collect();
    rig.vol.apply(&steps, USER).unwrap();
    let content = rig.read_all(find(&rig.vol, "/f0"));
    assert!((content[20], content[30], content[50], content[140 << 10]) == (2, 3, 5, 5));
    rig.unmount_checked();
}

fn long_overwrites_that_go_home_are_promised_nothing() {
    if Setup::current().journals_data() {
        return;
    }
    let rig = long_file();
    let steps: Vec<Step> = (0..4).map(|n| append(&format!("/new{n}"), &[n; 50])).collect();
    let all: Vec<Step> = (0..4).map(|n| create(&format!("/new{n}"))).chain(steps).collect();
    rig.vol.apply(&all, USER).unwrap();
    rig.vol.apply(&[write_at("/f0", 0, &[7; 249 << 10]), remove_file("/new0"), remove_file("/new1")], USER).unwrap();
    assert!(rig.read_all(find(&rig.vol, "/f0"))[..249 << 10].iter().all(|b| *b == 7));
    rig.unmount_checked();
}
