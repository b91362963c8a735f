//! Targets that open patched images.

use crate::calls::{Calls, Group};
use crate::guard::Guard;
use crate::image::{Kind, Seed, Structure, What, log, patched, units};
use crate::input::Input;
use crate::walk::Walk;
use ondol::{DataMode, JournalEngine, OnError, Options, Volume};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_power::Layer;
use ondol_testkit::image;

/// How an image is opened.
fn options(word: u8) -> Options {
    let data = [DataMode::Ordered, DataMode::Journal, DataMode::Writeback, DataMode::Ordered][usize::from(word & 3)];
    let on_error = if word & 4 == 0 { OnError::Continue } else { OnError::RemountReadOnly };
    let engine = if word & 64 == 0 { JournalEngine::Classic } else { JournalEngine::Compressed };
    image::options(data).with_on_error(on_error).with_journal(engine)
}

fn open(guard: &Arc<Guard>, options: &Options) -> Option<Volume> {
    guard.begin("opening");
    let store: Arc<dyn BlockStore> = guard.clone();
    Volume::open_stepped(store, options, image::clock(1)).ok()
}

/// Reads all there is, changing nothing.
pub(super) fn look(layer: &Layer, how: &str) {
    let guard = Arc::new(Guard::new(layer.clone(), false));
    let options = Options::parse(how).unwrap_or_default().with_cache(512 * 1024).with_cached_inodes(16);
    if let Some(volume) = open(&guard, &options) {
        Walk { volume: volume.inodes(), guard: &guard }.all();
    }
    check(&guard);
}

fn check(guard: &Arc<Guard>) {
    guard.begin("the check");
    let store: Arc<dyn BlockStore> = guard.clone();
    let _ = ondol::check_media(&store);
}

pub(super) fn walk(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let seed = Seed::of(Kind::one_of(&Kind::ALL, input.u8()));
    let how = input.pick(&["ro,norecovery", "ro"]);
    let layer = if seed.atlas.len() == 1 {
        let mut layer = seed.layer.clone();
        let raw = input.all();
        let fits = raw.len().min(layer.len() - 1024);
        layer.write(1024, &raw[..fits]);
        layer
    } else {
        patched(seed, &mut input, |_| true)
    };
    look(&layer, how);
}

/// Calls on an image that is patched where `group`'s structures are.
pub(super) fn calls(bytes: &[u8], group: Group) {
    let which: fn(&Structure) -> bool = match group {
        Group::Names => |s| matches!(s.what, What::DirLeaf | What::DxNode | What::Inode | What::ExtentNode),
        Group::Contents => |s| matches!(s.what, What::Inode | What::ExtentNode | What::Indirect | What::BlockBitmap(_)),
        Group::Xattrs => |s| matches!(s.what, What::Xattr | What::Inode),
    };
    used(bytes, group, which);
}

/// Calls on an image that is patched anywhere.
pub(super) fn any(bytes: &[u8]) {
    let group = [Group::Names, Group::Contents, Group::Xattrs][bytes.len() % 3];
    used(bytes, group, |_| true);
}

fn used(bytes: &[u8], group: Group, which: fn(&Structure) -> bool) {
    let mut input = Input::new(bytes);
    let seed = Seed::of(Kind::one_of(&Kind::WHOLE, input.u8()));
    let word = input.u8();
    let guard = Arc::new(Guard::new(patched(seed, &mut input, which), true));
    let options = options(word);
    let Some(volume) = open(&guard, &options) else { return };
    Calls::new(volume.inodes(), &guard, seed).run(group, &mut input);
    guard.begin("committing");
    if word & 8 != 0 {
        let _ = volume.sync();
        let _ = volume.step_until_idle();
    }
    if word & 16 != 0 {
        let _ = volume.close();
    } else {
        drop(volume);
    }
    if word & 32 != 0 {
        again(&guard, &options);
    }
}

/// Opens what was left, recovers it, and reads it.
fn again(guard: &Arc<Guard>, options: &Options) {
    if let Some(volume) = open(guard, options) {
        guard.freeze();
        Walk { volume: volume.inodes(), guard }.all();
    }
    check(guard);
}

pub(super) fn journal(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let word = input.u8();
    // Two numbers stand for the same way to treat data: the second says which volumes, too.
    let kinds = match word >> 4 & 3 {
        3 => [Kind::Mapped, Kind::Inline, Kind::Clusters, Kind::Fast],
        _ => [Kind::Dirty, Kind::PlainDirty, Kind::Csum, Kind::Pages],
    };
    let seed = Seed::of(kinds[usize::from(word & 3)]);
    let mut layer = patched(seed, &mut input, |s| {
        matches!(s.what, What::JournalSuper | What::Journal(_) | What::OrphanFile | What::Superblock)
    });
    if word & 4 != 0 {
        log::write(&mut layer, seed, &mut input);
    }
    if word & 8 != 0 {
        look(&layer, "ro,norecovery");
    }
    let guard = Arc::new(Guard::new(layer, true));
    again(&guard, &options(word >> 4).with_read_only(word & 128 != 0));
}

pub(super) fn units(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let word = input.u8();
    let seed = Seed::of([Kind::Plain, Kind::Dirty, Kind::Csum, Kind::Pages][usize::from(word & 3)]);
    let mut layer = seed.layer.clone();
    units::write(&mut layer, seed, &mut input);
    let guard = Arc::new(Guard::new(layer, true));
    again(&guard, &options(word >> 4).with_read_only(word & 4 != 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every inode is a directory that claims the whole volume.
    #[test]
    fn the_check_reads_no_block_for_each_that_claims_it() {
        let seed = Seed::of(Kind::Plain);
        let mut layer = seed.layer.clone();
        let inodes: Vec<&Structure> = seed.atlas.iter().filter(|s| s.what == What::Inode).collect();
        let at = |ino: u32| inodes[0].offset as usize + (ino - inodes[0].ino) as usize * inodes[0].len as usize;
        let dir = inodes.iter().find(|s| s.ino == 11).expect("lost+found");
        let mut raw = vec![0; dir.len as usize];
        layer.read(dir.offset as usize, &mut raw);
        let extent = [0u32.to_le_bytes(), 4000u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
        raw[0x28 + 12..0x28 + 24].copy_from_slice(&extent);
        raw[4..8].copy_from_slice(&(4000u32 << 10).to_le_bytes());
        (12..=seed.inodes).for_each(|ino| layer.write(at(ino), &raw));
        let guard = Arc::new(Guard::new(layer, false));
        check(&guard);
        let store: Arc<dyn BlockStore> = guard.clone();
        assert!(!ondol::check_media(&store).expect("a check").is_clean());
    }
}
