//! Random changes of files against plain vectors, on 1 KiB and 4 KiB blocks, with both engines, in all data modes, with
//! remounts.

use crate::file_util::{Random, Rig, dump, ino_of, mkfs, mount};
use ondol_testkit::rig::Setup;
use ondol_volume::{Error, Fallocate, Ino, Seek};

/// What a file should hold.
#[derive(Clone, Default)]
struct Model(Vec<u8>);

impl Model {
    /// One random change of one file, and of the model. Without `extents`, only holes can be made of ranges.
    fn change(&mut self, rig: &Rig, random: &mut Random, ino: Ino, span: u64, extents: bool) {
        let at = random.below(span);
        let len = 1 + if random.below(4) == 0 { random.below(span / 2) } else { random.below(9000) };
        let vol = &rig.vol;
        let range = (at as usize, len as usize);
        match random.below(14) {
            kind @ 7..=10 if !extents => {
                use Fallocate::{Allocate, KeepSize, ZeroRange, ZeroRangeKeepSize};
                let how = [ZeroRange, ZeroRangeKeepSize, Allocate, KeepSize][kind as usize - 7];
                let refused = vol.files().fallocate(ino, how, at, len);
                assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
            }
            0..=3 => {
                let bytes = random.bytes(len as usize);
                assert_eq!(vol.files().write(ino, at, &bytes).unwrap(), bytes.len());
                self.write(range.0, &bytes);
            }
            4 => {
                let bytes = random.bytes(len as usize);
                assert_eq!(vol.files().append(ino, &bytes).unwrap(), self.0.len() as u64);
                self.0.extend_from_slice(&bytes);
            }
            5 => {
                let size = random.below(self.0.len() as u64 + 5000);
                vol.files().truncate(ino, size).unwrap();
                self.0.resize(size as usize, 0);
            }
            6 => {
                vol.files().fallocate(ino, Fallocate::PunchHole, at, len).unwrap();
                self.zero(range.0, range.1, false);
            }
            7 => {
                vol.files().fallocate(ino, Fallocate::ZeroRange, at, len).unwrap();
                self.zero(range.0, range.1, true);
            }
            8 => {
                vol.files().fallocate(ino, Fallocate::ZeroRangeKeepSize, at, len).unwrap();
                self.zero(range.0, range.1, false);
            }
            9 => {
                vol.files().fallocate(ino, Fallocate::Allocate, at, len).unwrap();
                self.0.resize(self.0.len().max(range.0 + range.1), 0);
            }
            10 => vol.files().fallocate(ino, Fallocate::KeepSize, at, len).unwrap(),
            11 | 12 if extents => shift(rig, random, ino, self),
            _ => rig.env.advance(random.below(2) * 1_000_000),
        }
        assert_eq!(vol.getattr(ino).unwrap().size, self.0.len() as u64);
        let from = random.below(self.0.len() as u64 + 1) as usize;
        let mut buf = vec![0xEE; random.below(20_000) as usize];
        let n = vol.files().read(ino, from as u64, &mut buf).unwrap();
        assert_eq!(n, buf.len().min(self.0.len() - from));
        assert!(buf[..n] == self.0[from..from + n], "inode {ino} differs in {from}..{}", from + n);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0.resize(self.0.len().max(at + bytes.len()), 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&mut self, at: usize, len: usize, grow: bool) {
        if grow {
            self.0.resize(self.0.len().max(at + len), 0);
        }
        let end = (at + len).min(self.0.len());
        self.0[at.min(end)..end].fill(0);
    }
}

/// Takes whole clusters out, or puts a hole in.
fn shift(rig: &Rig, random: &mut Random, ino: Ino, model: &mut Model) {
    let cluster = u64::from(rig.vol.cluster_size());
    let size = model.0.len() as u64;
    let (at, len) = (random.below(size / cluster + 1) * cluster, (1 + random.below(30)) * cluster);
    let (how, reached) =
        if random.below(2) == 0 { (Fallocate::CollapseRange, at + len) } else { (Fallocate::InsertRange, at) };
    let result = rig.vol.files().fallocate(ino, how, at, len);
    if reached >= size {
        assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
        return;
    }
    result.unwrap();
    let at = at as usize;
    if how == Fallocate::CollapseRange {
        model.0.drain(at..at + len as usize);
    } else {
        model.0.splice(at..at, vec![0; len as usize]);
    }
}

/// Data runs cover every byte that is not zero; what lies outside them is zeros.
fn check_seek(rig: &Rig, ino: Ino, model: &Model) {
    let mut at = 0;
    while let Ok(data) = rig.vol.files().seek(ino, at, Seek::Data) {
        assert!(model.0[at as usize..data as usize].iter().all(|b| *b == 0));
        at = rig.vol.files().seek(ino, data, Seek::Hole).unwrap();
        assert!(at > data);
    }
    assert!(model.0[at as usize..].iter().all(|b| *b == 0));
}

fn against_model(mkfs_args: &[&str], size: &str, span: u64, seed: u64) {
    for setup in Setup::pair(seed as usize) {
        setup.run(|| with_setup(mkfs_args, size, span, seed));
    }
}

fn with_setup(mkfs_args: &[&str], size: &str, span: u64, seed: u64) {
    let mut bytes = mkfs(size, mkfs_args, 3);
    let inos: Vec<Ino> = (0..3).map(|i| ino_of(&bytes, &format!("f{i}"))).collect();
    let extents = !mkfs_args.iter().any(|arg| arg.contains("^extent"));
    let mut models = vec![Model::default(); 3];
    let mut random = Random(seed);
    for _round in 0..6 {
        let rig = mount(bytes);
        for _ in 0..60 {
            let i = random.below(3) as usize;
            models[i].change(&rig, &mut random, inos[i], span, extents);
            if random.below(10) == 0 {
                rig.vol.sync().unwrap();
            }
        }
        for (ino, model) in inos.iter().zip(&models) {
            assert!(rig.read_all(*ino) == model.0, "inode {ino}");
            check_seek(&rig, *ino, model);
        }
        bytes = rig.unmount_checked();
        for (i, model) in models.iter().enumerate() {
            assert!(dump(&bytes, &format!("f{i}")) == model.0, "debugfs reads f{i} otherwise");
        }
    }
}

#[test]
fn ordered_4k() {
    against_model(&["-b", "4096"], "64M", 1 << 20, 1);
}

#[test]
fn journal_4k() {
    against_model(&["-b", "4096", "-J", "size=8"], "64M", 1 << 20, 2);
}

#[test]
fn writeback_4k() {
    against_model(&["-b", "4096"], "64M", 1 << 20, 3);
}

#[test]
fn ordered_1k() {
    against_model(&["-b", "1024"], "32M", 600_000, 4);
}

#[test]
fn journal_1k() {
    against_model(&["-b", "1024"], "32M", 600_000, 5);
}

#[test]
fn writeback_1k_without_checksums() {
    against_model(&["-b", "1024", "-O", "^metadata_csum,^64bit"], "32M", 600_000, 6);
}

#[test]
fn ordered_2k_uninit_groups() {
    against_model(&["-b", "2048", "-O", "^metadata_csum,uninit_bg"], "48M", 800_000, 7);
}

#[test]
fn journal_1k_in_many_small_groups() {
    against_model(&["-b", "1024", "-g", "512", "-J", "size=2"], "32M", 600_000, 8);
}

#[test]
fn ordered_1k_in_many_small_groups() {
    against_model(&["-b", "1024", "-g", "512", "-J", "size=1", "-O", "^flex_bg"], "32M", 600_000, 9);
}

/// ext3's features.
const EXT3: &str = "^extent,^metadata_csum,^64bit,^flex_bg,^huge_file,^dir_nlink,^extra_isize";

#[test]
fn block_map_ordered_1k() {
    against_model(&["-b", "1024", "-O", EXT3], "32M", 3 << 20, 10);
}

#[test]
fn block_map_journal_1k() {
    against_model(&["-b", "1024", "-O", EXT3, "-J", "size=1"], "32M", 1 << 20, 11);
}

#[test]
fn block_map_ordered_4k_with_checksums() {
    against_model(&["-b", "4096", "-O", "^extent,^64bit"], "64M", 1 << 20, 12);
}

#[test]
fn block_map_writeback_1k_in_many_small_groups() {
    against_model(&["-b", "1024", "-g", "512", "-O", "^extent,^64bit,^flex_bg"], "32M", 2 << 20, 13);
}

#[test]
fn clusters_ordered_1k() {
    against_model(&["-b", "1024", "-O", "bigalloc", "-C", "16384"], "32M", 600_000, 14);
}

#[test]
fn clusters_journal_4k() {
    against_model(&["-b", "4096", "-O", "bigalloc", "-C", "32768"], "64M", 1 << 20, 15);
}

#[test]
fn clusters_writeback_in_many_small_groups() {
    let args = ["-b", "1024", "-O", "bigalloc,^metadata_csum,uninit_bg", "-C", "4096", "-g", "2048", "-J", "size=2"];
    against_model(&args, "32M", 600_000, 16);
}
