//! Calls by inode number, as a server makes them: on inodes that names led to.

use crate::guard::Guard;
use crate::image::Seed;
use crate::input::Input;
use ondol_env::Timestamp;
use ondol_volume::{
    Batch, Caller, CopyRange, Device, Exchange, Fallocate, FileType, FsxAttr, Ino, ROOT, Rename, Seek, SetAttr,
    SetTime, SetXattr, Volume,
};

/// Which calls an input makes, mostly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Names,
    Contents,
    Xattrs,
}

/// Most calls of an input.
const CALLS: usize = 48;

/// A volume that is being used.
pub(crate) struct Calls<'a> {
    volume: &'a Volume,
    guard: &'a Guard,
    inos: Vec<Ino>,
    open: Vec<Ino>,
}

const NAMES: [&[u8]; 25] = [
    b"file",
    b"frag",
    b"pre",
    b"d",
    b"big",
    b"flat",
    b"attrs",
    b"acl",
    b"acls",
    b"values",
    b"same",
    b"tiny",
    b"fast",
    b"slow",
    b"one",
    b"sub",
    b"new",
    b"new2",
    b"name 0001",
    b"name 0003",
    b"",
    b".",
    b"..",
    b"a/b",
    b"lost+found",
];

const XATTRS: [&[u8]; 13] = [
    b"user.large",
    b"user.huge",
    b"user.small",
    b"user.new",
    b"trusted.t",
    b"security.selinux",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"system.data",
    b"user.",
    b"other",
    b"",
    b"system.richacl",
];

impl<'a> Calls<'a> {
    pub(crate) fn new(volume: &'a Volume, guard: &'a Guard, seed: &Seed) -> Self {
        Self { volume, guard, inos: seed.inos.clone(), open: Vec::new() }
    }

    /// Makes the calls that the rest of `input` says.
    pub(crate) fn run(mut self, group: Group, input: &mut Input<'_>) {
        for _ in 0..CALLS {
            if input.is_empty() {
                break;
            }
            self.one(group, input);
        }
        for ino in std::mem::take(&mut self.open) {
            self.guard.begin("release");
            let _ = self.volume.inode_ops().release(ino);
        }
    }

    fn one(&mut self, group: Group, input: &mut Input<'_>) {
        let word = input.u8();
        let group = match word >> 5 {
            6 => Group::Names,
            7 => [Group::Contents, Group::Xattrs][usize::from(group == Group::Contents)],
            _ => group,
        };
        match group {
            Group::Names => self.names(word & 31, input),
            Group::Contents => self.contents(word & 31, input),
            Group::Xattrs => self.xattrs(word & 31, input),
        }
    }

    fn ino(&self, input: &mut Input<'_>) -> Ino {
        let at = input.u8();
        match at {
            255 => input.u32().max(11),
            _ => self.inos.get(usize::from(at) % self.inos.len().max(1)).copied().unwrap_or(ROOT),
        }
    }

    fn name(input: &mut Input<'_>) -> Vec<u8> {
        match input.u8() {
            n @ 0..=127 => NAMES[usize::from(n) % NAMES.len()].to_vec(),
            n @ 128..=159 => format!("name {:04} {}", n - 128, "n".repeat(60 - usize::from(n - 128) % 50)).into_bytes(),
            n @ 160..=200 => vec![b'l'; usize::from(n) + 56],
            n => vec![n; 3],
        }
    }

    fn found(&mut self, result: Result<ondol_volume::Attr, ondol_volume::Error>) {
        if let Ok(attr) = result {
            assert!(attr.ino == ROOT || attr.ino > 2, "inode {} has a name", attr.ino);
            if self.inos.len() < 200 {
                self.inos.push(attr.ino);
            }
        }
    }

    fn names(&mut self, call: u8, input: &mut Input<'_>) {
        const OWNER: Caller = crate::image::OWNER;
        let (v, dir, name) = (self.volume, self.ino(input), Self::name(input));
        self.guard.begin("a call on names");
        match call {
            0..=3 => self.found(v.names().lookup(dir, &name)),
            4..=6 => self.found(v.names().create(dir, &name, 0o644, OWNER)),
            7..=9 => self.found(v.names().mkdir(dir, &name, 0o755, OWNER)),
            10 => self.found(v.names().mknod(
                dir,
                &name,
                input.u16(),
                Device { major: input.u32(), minor: input.u32() },
                OWNER,
            )),
            11 => {
                let target = vec![b't'; usize::from(input.u16()) % 5000];
                self.found(v.names().symlink(dir, &name, &target, OWNER));
            }
            12..=14 => {
                let ino = self.ino(input);
                self.found(v.names().link(ino, dir, &name));
            }
            15..=18 => drop(v.names().unlink(dir, &name)),
            19..=20 => drop(v.names().rmdir(dir, &name)),
            21..=25 => {
                let (to, to_name) = (self.ino(input), Self::name(input));
                let whiteout = Rename::Whiteout { owner: OWNER, replace: true };
                let how = input.pick(&[Rename::Replace, Rename::NoReplace, Rename::Exchange, whiteout]);
                self.guard.begin("rename");
                drop(v.names().rename(dir, &name, to, &to_name, how));
            }
            26 => {
                // A burst of names, so that directories split and grow.
                for i in 0..input.u8() {
                    self.guard.begin("create");
                    let name = format!("burst {i:03} {}", "b".repeat(usize::from(i) % 40 + 60));
                    if v.names().create(dir, name.as_bytes(), 0o600, OWNER).is_err() {
                        break;
                    }
                }
            }
            27 => {
                for i in 0..input.u8() {
                    self.guard.begin("unlink");
                    let name = format!("burst {i:03} {}", "b".repeat(usize::from(i) % 40 + 60));
                    if v.names().unlink(dir, name.as_bytes()).is_err() {
                        break;
                    }
                }
            }
            28 => self.readdir(dir, input.u64()),
            29 if name.len() == 3 => {
                let made = v.names().tmpfile(dir, 0o600, OWNER);
                self.open.extend(made.as_ref().ok().map(|a| a.ino));
                self.found(made);
            }
            29 => {
                if v.inode_ops().open(dir).is_ok() {
                    self.open.push(dir);
                }
            }
            30 => {
                if let Some(ino) = self.open.pop() {
                    drop(v.inode_ops().release(ino));
                }
            }
            _ => drop(v.sync()),
        }
    }

    fn readdir(&self, dir: Ino, cookie: u64) {
        let mut n = 0;
        let result = self.volume.names().readdir(dir, cookie, &mut |_| {
            n += 1;
            n < 200
        });
        drop(result);
    }

    fn offset(input: &mut Input<'_>) -> u64 {
        match input.u8() {
            n @ 0..=99 => u64::from(n) * 512,
            n @ 100..=179 => u64::from(n) * 1000 + u64::from(input.u8()),
            n @ 180..=219 => 1 << (n - 180),
            n @ 220..=239 => (1u64 << (n - 200)).wrapping_sub(1),
            _ => input.u64(),
        }
    }

    fn contents(&mut self, call: u8, input: &mut Input<'_>) {
        let (v, ino, at) = (self.volume, self.ino(input), Self::offset(input));
        self.guard.begin("a call on contents");
        match call {
            0..=7 => drop(v.files().write(ino, at, &vec![call; usize::from(input.u16()) % 20_000])),
            8..=9 => drop(v.files().append(ino, &vec![call; usize::from(input.u16()) % 5000])),
            10..=13 => {
                let mut buf = vec![0; usize::from(input.u16()) % 20_000];
                drop(v.files().read(ino, at, &mut buf));
            }
            14..=17 => drop(v.inode_ops().setattr(ino, &SetAttr { size: Some(at), ..SetAttr::default() })),
            18..=26 => {
                let (how, len) = (input.pick(&Fallocate::ALL), Self::offset(input));
                drop(v.files().fallocate(ino, how, at, len));
            }
            27 => {
                drop(v.files().seek(ino, at, Seek::Data));
                drop(v.files().extents(ino, at, Self::offset(input)));
                self.guard.begin("view");
                drop(v.files().view(ino, at, 20_000));
            }
            28 => {
                drop(v.files().seek(ino, at, Seek::Hole));
                let (to, to_at, len) = (self.ino(input), Self::offset(input), Self::offset(input));
                drop(v.ranges().copy_range(ino, to, CopyRange { from: at, to: to_at, len }, input.one_in(2)));
                self.guard.begin("exchange");
                for len in [None, Some(len)] {
                    drop(v.ranges().exchange(ino, at, to, to_at, &Exchange { len, ..Exchange::default() }));
                }
            }
            29 => {
                let time = SetTime::To(Timestamp { sec: at as i64, nsec: 5 });
                let set =
                    SetAttr { perm: Some(call.into()), mtime: Some(time), uid: Some(at as u32), ..SetAttr::default() };
                drop(v.inode_ops().setattr(ino, &set));
            }
            30 => {
                // Every other block of a long file: the map grows.
                for i in 0..u64::from(input.u8()) {
                    self.guard.begin("write");
                    if v.files().write(ino, at.saturating_add(i * 8192), &[9; 600]).is_err() {
                        break;
                    }
                }
                self.guard.begin("writing parts");
                let parts = [at, at.saturating_add(9000), at.saturating_add(70_000)].map(|at| (at, &[8; 5000][..]));
                drop(Batch::over(ino, parts).and_then(|batch| v.ranges().apply_batches(&[&batch])));
                self.guard.begin("exchanging parts");
                let long = vec![7; 1_200_000];
                drop(Batch::over(ino, [(at, &long[..])]).and_then(|batch| v.ranges().apply_batches(&[&batch])));
            }
            31 if at == 0 => drop(v.space().take_for_memory(100)),
            _ => drop(v.fsync(ino, true)),
        }
    }

    fn xattrs(&mut self, call: u8, input: &mut Input<'_>) {
        let (v, ino, name) = (self.volume, self.ino(input), input.pick(&XATTRS));
        self.guard.begin("a call on attributes");
        match call {
            0..=13 => {
                let how = input.pick(&[SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace]);
                let value = match input.u8() {
                    n @ 0..=200 => vec![n; usize::from(n)],
                    n @ 201..=230 => vec![n; usize::from(n - 200) * 128],
                    n @ 231..=240 => vec![n; usize::from(n - 228) * 2000],
                    n => input.split(usize::from(n - 240) * 6).to_vec(),
                };
                drop(v.xattrs().setxattr(ino, name, &value, how));
            }
            14..=19 => drop(v.xattrs().removexattr(ino, name)),
            20..=22 => drop(v.xattrs().getxattr(ino, name)),
            23 => drop(v.xattrs().listxattr(ino)),
            24..=26 => {
                let new = Self::name(input);
                // Takes over a default ACL.
                let made = match v.getattr(ino).map(|a| a.file_type) {
                    Ok(FileType::Directory) => v.names().create(ino, &new, 0o777, crate::image::OWNER),
                    _ => v.names().create(ROOT, &new, 0o666, crate::image::OWNER),
                };
                self.found(made);
            }
            27 => drop(v.inode_ops().setattr(ino, &SetAttr { perm: Some(input.u16() & 0o7777), ..SetAttr::default() })),
            31 => {
                drop(v.inode_ops().set_flags(ino, input.u32(), u32::MAX));
                let _ = v
                    .inode_ops()
                    .fsxattr(ino)
                    .map(|set| v.inode_ops().set_fsxattr(ino, &FsxAttr { projid: input.u32(), ..set }, u32::MAX));
            }
            28 => drop(v.names().unlink(ROOT, &Self::name(input))),
            _ => drop(v.sync()),
        }
    }
}
