//! Volumes that are to be given another size.

use crate::dump;
use crate::image::{self, Spec};
use crate::tooled::{Step, Tool, Tooled};
use ondol::{Extent, Fallocate, File, NewSize, OpenOptions, Options, SetXattr, Volume};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_power::Layer;
use ondol_volume::Image;
use std::fmt::Display;
use std::ops::Range;

const MIB: u64 = 1 << 20;

/// What is in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// Much of it lies at its end, in pieces.
    AtTheEnd,
    /// The same, and directories in all groups.
    Everywhere,
    /// The same, with values of attributes.
    Valued,
    /// The same, and a directory whose index has several levels names what is in them. Some of its blocks begin with
    /// nothing.
    Indexed,
    /// Hardly anything is free before the new end.
    BeforeTheEnd,
    /// Nothing is free, and it grows while it is in use.
    Full,
    /// Two files, of which the second could go where the first one's mapping was.
    InTurn,
}

/// Name, arguments of mke2fs, MiB before and afterwards.
type Case = (&'static str, &'static str, u64, u64, Filled);

/// All of them.
const ALL: [Case; 16] = [
    ("grown", "-g 1024", 6, 9, Filled::AtTheEnd),
    ("grown-into-meta-bg", "-O ^resize_inode,^64bit,^metadata_csum -g 256 -G 1", 8, 10, Filled::AtTheEnd),
    ("grown-into-its-reserve", "-O ^flex_bg -g 512 -E resize=65536", 7, 10, Filled::AtTheEnd),
    ("grown-in-use", "-m 0 -O ^flex_bg -g 512 -E resize=65536", 7, 9, Filled::Full),
    ("grown-in-use-into-meta-bg", "-m 0 -O ^resize_inode,^64bit,^metadata_csum -g 256 -G 1", 8, 10, Filled::Full),
    ("shrunk", "-g 2048", 9, 6, Filled::AtTheEnd),
    ("shrunk-in-many-groups", "-O ^metadata_csum,^extent,^64bit -g 512", 9, 5, Filled::AtTheEnd),
    ("shrunk-with-orphans", "-O orphan_file,inline_data -I 256 -g 1024", 9, 5, Filled::AtTheEnd),
    ("shrunk-into-its-reserve", "-g 512 -E resize=65536", 9, 6, Filled::AtTheEnd),
    ("shrunk-with-inodes", "-g 1024", 9, 6, Filled::Everywhere),
    ("shrunk-with-values", "-O inline_data,ea_inode -I 256 -g 1024", 9, 5, Filled::Valued),
    ("shrunk-with-names", "-g 1024", 9, 6, Filled::Indexed),
    ("shrunk-off-its-descriptors", "-O ^resize_inode -g 512", 9, 6, Filled::AtTheEnd),
    // Bitmaps lie anywhere in their groups.
    ("shrunk-with-metadata", "-O ^flex_bg -E stride=400 -g 2048", 14, 7, Filled::AtTheEnd),
    ("shrunk-in-turn", "-m 0 -g 1024", 14, 11, Filled::InTurn),
    // The journal lies over the new end, and less is free before that than it has.
    ("shrunk-past-its-journal", "-m 0 -g 2048", 9, 5, Filled::BeforeTheEnd),
];

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, ..)| *name)
}

fn text(e: impl Display) -> String {
    e.to_string()
}

/// A store with these bytes.
pub fn on(bytes: &[u8]) -> Arc<RamStore> {
    Arc::new(RamStore::from_bytes(bytes.to_vec()))
}

fn open(store: Arc<dyn BlockStore>) -> ondol::Result<Volume> {
    Volume::open_stepped(store, &Options::default(), image::clock(1))
}

/// Makes one of [`names`].
///
/// # Errors
/// There is none; mke2fs is missing, or the volume fails.
pub fn make(name: &str) -> Result<Tooled, String> {
    let all = || names().collect::<Vec<_>>().join(", ");
    let of = ALL
        .iter()
        .find(|(one, ..)| *one == name)
        .ok_or_else(|| format!("no such resize: {name} (one of {})", all()))?;
    let &(name, args, from, to, filled) = of;
    let mut bytes = Spec::new(from * MIB, 1024).journal(1).with("-N 512").with(args).make().map_err(text)?;
    bytes.resize((from.max(to) * MIB) as usize, 0);
    let store = on(&bytes);
    let volume = open(store.clone()).map_err(text)?;
    match filled {
        Filled::AtTheEnd => fill_at_the_end(&volume).map_err(text)?,
        Filled::Everywhere | Filled::Valued | Filled::Indexed => {
            fill_groups(&volume, filled).map_err(text)?;
            fill_at_the_end(&volume).map_err(text)?;
        }
        Filled::BeforeTheEnd => fill_before(&volume, to * MIB).map_err(text)?,
        Filled::Full => fill(&volume).map_err(text)?,
        Filled::InTurn => fill_in_turn(&volume, &bytes, to * MIB)?,
    }
    volume.close().map_err(text)?;
    let tool = match filled {
        Filled::Full => Tool::Grow(from * MIB..to * MIB),
        _ => Tool::Resize(NewSize::Bytes(to * MIB)),
    };
    Tooled::new(name, vec![Layer::new(store.to_bytes())], vec![tool])
}

/// Group after group, from one size to another. What has been done before a crash is done again.
pub(crate) fn grow(
    image: Arc<dyn BlockStore>,
    volume: Volume,
    sizes: &Range<u64>,
    tell: &mut dyn FnMut(Step),
) -> ondol::Result<()> {
    let sb = Image::open(image)?.superblock().clone();
    let (unit, mut now) = (u64::from(sb.block_size()), sb.blocks_count());
    let per_group = u64::from(sb.blocks_per_group());
    let ends = (sizes.start / unit..sizes.end / unit).step_by(per_group as usize);
    for (n, from) in ends.enumerate() {
        let to = (from + per_group).min(sizes.end / unit);
        // The last group becomes whole, and then there is another one.
        let whole = sb.group_first_block(0) + (from - sb.group_first_block(0)).next_multiple_of(per_group);
        for blocks in [whole, to] {
            if now < blocks {
                volume.resize(Some(blocks * unit))?;
                tell(Step::Blocks(blocks));
                now = blocks;
            }
        }
        for part in 0..2 {
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).open(&volume, format!("/{n}{part}"))?;
            tell(Step::Holds(dump::of_volume(volume.inodes())?));
            file.write_at(&[7; 40_000], 0)?;
            tell(Step::Holds(dump::of_volume(volume.inodes())?));
        }
        volume.sync()?;
        tell(Step::Synced);
    }
    volume.close()
}

/// Writes every fourth KiB of a file, each of another byte.
fn scatter(volume: &Volume, name: &str, range: Range<u64>) -> ondol::Result<()> {
    let file = OpenOptions::new().write(true).create(true).open(volume, name)?;
    for at in range {
        file.write_at(&[(at % 250) as u8 + 1; 1024], at * 4096)?;
    }
    Ok(())
}

fn fill_at_the_end(volume: &Volume) -> ondol::Result<()> {
    volume.create_dir("/d")?;
    volume.create_dir("/d/e")?;
    // Its mapping lies at the beginning of the volume, and what it will have at the end is added.
    scatter(volume, "/z", 0..14)?;
    let mut n = 0;
    while volume.statfs().free > 1200 {
        volume.write(format!("/d/f{n:03}"), vec![n as u8; 300_000])?;
        n += 1;
    }
    // Two that grow by turns lie in many pieces.
    for at in 0..24 {
        for name in ["/x", "/d/e/y"] {
            scatter(volume, name, at..at + 1)?;
        }
    }
    scatter(volume, "/z", 14..30)?;
    volume.attributes().set("/d/e", "user.much", [8; 700], SetXattr::Any)?;
    volume.symlink("t".repeat(200), "/d/link")?;
    (0..n - 1).try_for_each(|n| volume.remove_file(format!("/d/f{n:03}")))
}

fn fill_groups(volume: &Volume, filled: Filled) -> ondol::Result<()> {
    let dirs = (0..24).map(|n| (n, format!("/g{n}")));
    for (n, dir) in dirs {
        volume.create_dir(&dir)?;
        let file = format!("{dir}/f");
        volume.write(&file, [n; 900])?;
        if filled == Filled::Valued {
            [&dir, &file]
                .into_iter()
                .try_for_each(|of| volume.attributes().set(of, "user.v", [n; 2000], SetXattr::Any))?;
        }
    }
    if filled != Filled::Indexed {
        return Ok(());
    }
    volume.create_dir("/big")?;
    // More than the root of an index leads to.
    for n in 0..360 {
        volume.hard_link(format!("/g{}/f", n % 24), format!("/big/{n:0240}"))?;
    }
    // In the order of the index: of few blocks the first is none of these.
    let names = volume.read_dir("/big")?.collect::<ondol::Result<Vec<_>>>()?;
    names.iter().step_by(2).try_for_each(|entry| volume.remove_file(entry.path()))
}

/// Leaves hardly anything free.
fn fill(volume: &Volume) -> ondol::Result<()> {
    let (mut n, mut len) = (0, 300 * BLOCK as usize);
    while len > 4096 {
        let name = format!("/f{n}");
        match volume.write(&name, vec![n; len]) {
            Err(e) if e.kind() == std::io::ErrorKind::StorageFull => {
                volume.remove_file(&name)?;
                volume.sync()?;
                len /= 2;
            }
            written => written?,
        }
        n += 1;
    }
    Ok(())
}

/// Bytes of a block of these volumes.
const BLOCK: u64 = 1024;
/// The group behind the new end in which files have something.
const BEHIND: u64 = 12;

/// A file that has all space that is free, so that its holes are the space that is free.
struct Filler {
    file: File,
    /// Where it goes on.
    next: u64,
    per_group: u64,
}

impl Filler {
    fn new(volume: &Volume, per_group: u64) -> ondol::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).open(volume, "/filler")?;
        // Its mapping has room for the pieces that holes make of it.
        for piece in 0..8 {
            file.fallocate(Fallocate::Allocate, 2 * piece * BLOCK, BLOCK)?;
        }
        let mut filler = Self { file, next: 16 * BLOCK, per_group };
        filler.fill()?;
        Ok(filler)
    }

    fn fill(&mut self) -> ondol::Result<()> {
        let mut len = 512 * BLOCK;
        while len >= BLOCK {
            match self.file.fallocate(Fallocate::Allocate, self.next, len) {
                Ok(()) => self.next += len,
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => len /= 2,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// What it has of some bytes of the volume, as its own bytes: where, how many.
    fn within(&self, bytes: &Range<u64>) -> ondol::Result<Vec<(u64, u64)>> {
        let cut = |extent: Extent| {
            let start = extent.physical.max(bytes.start);
            let end = (extent.physical + extent.len).min(bytes.end);
            (start < end).then(|| (extent.logical + (start - extent.physical), end - start))
        };
        Ok(self.file.extents(0, u64::MAX)?.into_iter().filter_map(cut).collect())
    }

    fn group(&self, group: u64) -> Range<u64> {
        let at = |group| (1 + group * self.per_group) * BLOCK;
        at(group)..at(group + 1)
    }

    /// Frees consecutive blocks of a group; says whether there are so many.
    fn free(&self, group: u64, blocks: u64) -> ondol::Result<bool> {
        let found = self.within(&self.group(group))?.into_iter().find(|(_, len)| *len >= blocks * BLOCK);
        let Some((at, _)) = found else { return Ok(false) };
        self.file.fallocate(Fallocate::PunchHole, at, blocks * BLOCK)?;
        Ok(true)
    }
}

/// A file that leaves 600 blocks before `end`, and one that lies behind it.
fn fill_before(volume: &Volume, end: u64) -> ondol::Result<()> {
    volume.create("/x")?;
    let filler = Filler::new(volume, 2048)?;
    for (at, len) in filler.within(&(end..u64::MAX))? {
        filler.file.fallocate(Fallocate::PunchHole, at, len)?;
    }
    volume.sync()?;
    scatter(volume, "/x", 0..30)?;
    volume.sync()?;
    match filler.free(0, 600)? {
        true => volume.sync(),
        false => Err(ondol_volume::Error::NoSpace("600 blocks in the first group").into()),
    }
}

/// Two files of which a part lies behind the new end. The groups before `second` have exactly as many free blocks as
/// the first file needs, all of them in `first`. So the shrink does not look at the bitmap of `second` before the first
/// file has moved, and there its old mapping is then the first block that the bitmap has free. `third` has room for the
/// second file.
fn fill_in_turn(volume: &Volume, bytes: &[u8], end: u64) -> Result<(), String> {
    const PIECES: u64 = 8;
    let sb = Image::open(on(bytes)).map_err(text)?.superblock().clone();
    for name in ["/a", "/b"] {
        volume.create(name).map_err(text)?;
    }
    let mut filler = Filler::new(volume, sb.blocks_per_group().into()).map_err(text)?;
    let whole =
        |g: &u64| filler.within(&filler.group(*g)).is_ok_and(|parts| parts.iter().any(|(_, len)| *len > 600 * BLOCK));
    let groups: Vec<u64> = (0..end / BLOCK / filler.per_group).filter(whole).collect();
    let &[first, second, third, ..] = &groups[..] else { return Err(format!("not enough of a group: {groups:?}")) };
    let free = |filler: &Filler, group, blocks| match filler.free(group, blocks).map_err(text)? {
        true => volume.sync().map_err(text),
        false => Err(format!("not so many blocks in group {group}")),
    };
    // What the filler cannot have is the other files'.
    free(&filler, second, 64)?;
    let left = volume.statfs().free - 64;
    scatter(volume, "/rest", 0..left).map_err(text)?;
    volume.sync().map_err(text)?;
    scatter(volume, "/a", 0..PIECES).map_err(text)?;
    volume.sync().map_err(text)?;
    filler.fill().map_err(text)?;
    free(&filler, BEHIND, 64)?;
    let left = volume.statfs().free - 64;
    scatter(volume, "/a", PIECES..2 * PIECES + left).map_err(text)?;
    volume.sync().map_err(text)?;
    scatter(volume, "/b", 0..40).map_err(text)?;
    volume.sync().map_err(text)?;
    for (at, len) in filler.within(&(end..u64::MAX)).map_err(text)? {
        filler.file.fallocate(Fallocate::PunchHole, at, len).map_err(text)?;
    }
    free(&filler, third, 500)?;
    let a = OpenOptions::new().read(true).open(volume, "/a").map_err(text)?;
    let moved = a.extents(0, u64::MAX).map_err(text)?.iter().filter(|e| e.physical >= end).count() as u64;
    // Its pieces behind the end, and its mapping.
    free(&filler, first, moved + 1)
}
