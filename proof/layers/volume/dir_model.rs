//! Random namespace operations against a model in plain maps; e2fsck judges the image after each case.

use crate::dir_rig::{Fs, TOP, USER, fsck, mkfs};
use ondol_volume::{Device, Error, FileType, Ino, Rename};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What an operation answers, as far as the model foretells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    NotFound,
    Exists,
    NotDirectory,
    IsDirectory,
    NotPermitted,
    NotEmpty,
    Invalid,
    TooLong,
}

fn answer<T>(result: Result<T, Error>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(Error::NotFound) => Answer::NotFound,
        Err(Error::Exists) => Answer::Exists,
        Err(Error::NotDirectory(_)) => Answer::NotDirectory,
        Err(Error::IsDirectory(_)) => Answer::IsDirectory,
        Err(Error::NotPermitted(_)) => Answer::NotPermitted,
        Err(Error::NotEmpty(_)) => Answer::NotEmpty,
        Err(Error::Invalid(_)) => Answer::Invalid,
        Err(Error::NameTooLong) => Answer::TooLong,
        Err(e) => panic!("{e}"),
    }
}

#[derive(Clone, Debug)]
struct Object {
    file_type: FileType,
    ino: Ino,
    links: u32,
    opens: u32,
    target: Vec<u8>,
    /// Of a directory.
    names: BTreeMap<Vec<u8>, usize>,
    parent: usize,
}

/// Objects by a number that is never used again; 0 is the root.
struct Model {
    objects: BTreeMap<usize, Object>,
    next: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8, u8),
    Symlink(u8, u8, u8),
    Link(u8, u8, u8),
    Unlink(u8, u8),
    Rmdir(u8, u8),
    Rename(u8, u8, u8, u8, u8),
    Open(u8),
    Release(u8),
    Fill(u8, u16),
    Clear(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => any::<(u8, u8, u8)>().prop_map(|(d, n, t)| Step::Create(d, n, t)),
        2 => any::<(u8, u8, u8)>().prop_map(|(d, n, t)| Step::Symlink(d, n, t)),
        3 => any::<(u8, u8, u8)>().prop_map(|(o, d, n)| Step::Link(o, d, n)),
        4 => any::<(u8, u8)>().prop_map(|(d, n)| Step::Unlink(d, n)),
        3 => any::<(u8, u8)>().prop_map(|(d, n)| Step::Rmdir(d, n)),
        9 => any::<(u8, u8, u8, u8, u8)>().prop_map(|(a, b, c, d, e)| Step::Rename(a, b, c, d, e)),
        2 => any::<u8>().prop_map(Step::Open),
        2 => any::<u8>().prop_map(Step::Release),
        1 => (any::<u8>(), 0..300u16).prop_map(|(d, n)| Step::Fill(d, n)),
        1 => any::<u8>().prop_map(Step::Clear),
    ];
    prop::collection::vec(step, 1..160)
}

/// A small pool of names, short and long.
fn name(n: u8) -> Vec<u8> {
    match n % 16 {
        n @ 0..=11 => vec![b'a' + n],
        12 => vec![b'x'; 255],
        13 => "한국어".as_bytes().to_vec(),
        14 => vec![b'y'; 200],
        _ => vec![b'z'; 256],
    }
}

impl Model {
    fn new() -> Self {
        let mut model = Self { objects: BTreeMap::new(), next: 0 };
        model.add(FileType::Directory, TOP, 0, b"");
        // lost+found.
        model.object(0).links = 3;
        model
    }

    fn add(&mut self, file_type: FileType, ino: Ino, parent: usize, target: &[u8]) -> usize {
        let links = if file_type == FileType::Directory { 2 } else { 1 };
        let object =
            Object { file_type, ino, links, opens: 0, target: target.to_vec(), names: BTreeMap::new(), parent };
        self.objects.insert(self.next, object);
        self.next += 1;
        self.next - 1
    }

    fn object(&mut self, id: usize) -> &mut Object {
        self.objects.get_mut(&id).expect("an object")
    }

    fn pick(&self, n: u8, wanted: impl Fn(&Object) -> bool) -> Option<usize> {
        let all: Vec<usize> = self.objects.iter().filter(|(_, o)| wanted(o)).map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[usize::from(n) % all.len()])
    }

    /// A directory that has a name.
    fn dir(&self, n: u8) -> usize {
        self.pick(n, |o| o.file_type == FileType::Directory && o.links > 0).expect("the root")
    }

    fn is_dir(&self, id: usize) -> bool {
        self.objects[&id].file_type == FileType::Directory
    }

    fn find(&self, dir: usize, name: &[u8]) -> Option<usize> {
        self.objects[&dir].names.get(name).copied()
    }

    fn is_below(&self, id: usize, above: usize) -> bool {
        let mut at = id;
        while at != above && at != 0 {
            at = self.objects[&at].parent;
        }
        at == above
    }

    fn attach(&mut self, dir: usize, name: &[u8], id: usize) {
        self.object(dir).names.insert(name.to_vec(), id);
        if self.is_dir(id) {
            self.object(dir).links += 1;
            self.object(id).parent = dir;
        }
    }

    fn detach(&mut self, dir: usize, name: &[u8]) -> usize {
        let id = self.object(dir).names.remove(name).expect("a name");
        if self.is_dir(id) {
            self.object(dir).links -= 1;
        }
        id
    }

    /// An object has lost a name for good.
    fn drop_link(&mut self, id: usize) {
        let dir = self.is_dir(id);
        let object = self.object(id);
        object.links = if dir { 0 } else { object.links - 1 };
        if object.links == 0 && object.opens == 0 {
            self.objects.remove(&id);
        }
    }

    fn made_new(
        &mut self,
        dir: usize,
        name: &[u8],
        file_type: FileType,
        target: &[u8],
        made: Result<ondol_volume::Attr, Error>,
    ) {
        let expected = match (name.len() > 255, self.find(dir, name)) {
            (true, _) => Answer::TooLong,
            (_, Some(_)) => Answer::Exists,
            _ => Answer::Done,
        };
        let ino = made.as_ref().map_or(0, |a| a.ino);
        assert_eq!(answer(made), expected);
        if expected == Answer::Done {
            let id = self.add(file_type, ino, dir, target);
            self.attach(dir, name, id);
        }
    }

    fn rename(&mut self, from: usize, a: &[u8], to: usize, b: &[u8], how: Rename) -> Answer {
        if a.len() > 255 || b.len() > 255 {
            return Answer::TooLong;
        }
        let Some(source) = self.find(from, a) else { return Answer::NotFound };
        let target = self.find(to, b);
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Answer::Exists,
            (Rename::Exchange, None) => return Answer::NotFound,
            (_, Some(target)) if target == source => return Answer::Done,
            // The directory that contains the source.
            (Rename::Replace, Some(target)) if self.is_dir(target) && self.is_below(from, target) => {
                return Answer::NotEmpty;
            }
            _ => {}
        }
        if self.is_dir(source) && self.is_below(to, source) {
            return Answer::Invalid;
        }
        let Some(target) = target else {
            self.detach(from, a);
            self.attach(to, b, source);
            return Answer::Done;
        };
        if how == Rename::Exchange {
            if self.is_dir(target) && self.is_below(from, target) {
                return Answer::Invalid;
            }
            self.detach(from, a);
            self.detach(to, b);
            self.attach(from, a, target);
            self.attach(to, b, source);
            return Answer::Done;
        }
        match (self.is_dir(source), self.is_dir(target)) {
            (true, false) => return Answer::NotDirectory,
            (false, true) => return Answer::IsDirectory,
            (true, true) if !self.objects[&target].names.is_empty() => return Answer::NotEmpty,
            _ => {}
        }
        self.detach(from, a);
        self.detach(to, b);
        self.attach(to, b, source);
        self.drop_link(target);
        Answer::Done
    }

    fn remove(&mut self, dir: usize, name: &[u8], rmdir: bool) -> Answer {
        if name.len() > 255 {
            return Answer::TooLong;
        }
        let Some(id) = self.find(dir, name) else { return Answer::NotFound };
        match (rmdir, self.is_dir(id)) {
            (true, false) => return Answer::NotDirectory,
            (false, true) => return Answer::IsDirectory,
            (true, true) if !self.objects[&id].names.is_empty() => return Answer::NotEmpty,
            _ => {}
        }
        self.detach(dir, name);
        self.drop_link(id);
        Answer::Done
    }
}

/// Applies a step to both and compares.
fn apply(fs: &Fs, model: &mut Model, step: &Step) {
    let v = &fs.volume;
    match *step {
        Step::Create(d, n, t) => create(fs, model, d, &name(n), t),
        Step::Symlink(d, n, len) => {
            let (dir, name, target) = (model.dir(d), name(n), vec![b't'; usize::from(len) + 1]);
            let made = v.names().symlink(model.objects[&dir].ino, &name, &target, USER);
            model.made_new(dir, &name, FileType::Symlink, &target, made);
        }
        Step::Link(o, d, n) => {
            let (Some(id), dir, name) = (model.pick(o, |o| o.links > 0), model.dir(d), name(n)) else { return };
            let found = answer(v.names().link(model.objects[&id].ino, model.objects[&dir].ino, &name));
            let expected = match (name.len() > 255, model.find(dir, &name), model.is_dir(id)) {
                (true, ..) => Answer::TooLong,
                (_, Some(_), _) => Answer::Exists,
                (.., true) => Answer::NotPermitted,
                _ => Answer::Done,
            };
            assert_eq!(found, expected, "{step:?}");
            if found == Answer::Done {
                model.attach(dir, &name, id);
                model.object(id).links += 1;
            }
        }
        Step::Unlink(d, n) | Step::Rmdir(d, n) => {
            let (dir, name, rmdir) = (model.dir(d), name(n), matches!(step, Step::Rmdir(..)));
            let ino = model.objects[&dir].ino;
            let found = answer(if rmdir { v.names().rmdir(ino, &name) } else { v.names().unlink(ino, &name) });
            assert_eq!(found, model.remove(dir, &name, rmdir), "{step:?}");
        }
        Step::Rename(a, b, c, d, how) => {
            let how = [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange][usize::from(how % 4)];
            let (from, a, to, b) = (model.dir(a), name(b), model.dir(c), name(d));
            let found = v.names().rename(model.objects[&from].ino, &a, model.objects[&to].ino, &b, how);
            assert_eq!(answer(found), model.rename(from, &a, to, &b, how), "{step:?}");
        }
        Step::Open(o) => {
            let Some(id) = model.pick(o, |o| o.links > 0) else { return };
            v.inode_ops().open(model.objects[&id].ino).expect("open");
            model.object(id).opens += 1;
        }
        Step::Release(o) => {
            let Some(id) = model.pick(o, |o| o.opens > 0) else { return };
            v.inode_ops().release(model.objects[&id].ino).expect("release");
            model.object(id).opens -= 1;
            let object = model.object(id);
            if object.opens == 0 && object.links == 0 {
                model.objects.remove(&id);
            }
        }
        Step::Fill(d, n) => {
            for i in 0..n {
                create(fs, model, d, format!("filler {i} {}", "f".repeat(usize::from(i) % 90)).as_bytes(), i as u8);
            }
        }
        Step::Clear(d) => {
            let dir = model.dir(d);
            let names: Vec<_> = model.objects[&dir].names.keys().cloned().collect();
            for name in names {
                let found = answer(v.names().unlink(model.objects[&dir].ino, &name));
                assert_eq!(found, model.remove(dir, &name, false));
            }
        }
    }
}

fn create(fs: &Fs, model: &mut Model, d: u8, name: &[u8], t: u8) {
    let (dir, v) = (model.dir(d), &fs.volume);
    let parent = model.objects[&dir].ino;
    let (file_type, made) = match t % 8 {
        0..=2 => (FileType::Directory, v.names().mkdir(parent, name, 0o755, USER)),
        3 => (FileType::Fifo, v.names().mknod(parent, name, 0o010_644, Device::default(), USER)),
        4 => (FileType::CharDevice, v.names().mknod(parent, name, 0o020_600, Device { major: 1, minor: 3 }, USER)),
        _ => (FileType::Regular, v.names().create(parent, name, 0o644, USER)),
    };
    model.made_new(dir, name, file_type, b"", made);
}

/// Compares everything that can be seen.
fn compare(fs: &Fs, model: &Model) {
    for object in model.objects.values().filter(|o| o.links > 0) {
        let attr = fs.volume.getattr(object.ino).expect("an inode");
        assert_eq!((attr.file_type, attr.nlink), (object.file_type, object.links), "{object:?}");
        if object.file_type == FileType::Symlink {
            assert_eq!(fs.volume.names().readlink(object.ino).expect("a target"), object.target);
        }
        if object.file_type == FileType::Directory {
            let mut found = fs.names(object.ino, 13);
            if object.ino == TOP {
                found.remove(&b"lost+found"[..]);
            } else {
                let parent = fs.volume.names().lookup(object.ino, b"..").expect("the parent");
                assert_eq!(parent.ino, model.objects[&object.parent].ino);
            }
            let expected: BTreeMap<_, _> =
                object.names.iter().map(|(n, id)| (n.clone(), model.objects[id].ino)).collect();
            let inos: BTreeMap<_, _> = found.into_iter().map(|(n, (ino, _))| (n, ino)).collect();
            assert_eq!(inos, expected);
        }
    }
    for object in model.objects.values().filter(|o| o.links == 0) {
        let attr = fs.volume.getattr(object.ino).expect("an open inode");
        assert_eq!(attr.nlink, 0);
    }
}

fn case(image: &[u8], steps: &[Step]) {
    let fs = Fs::open(image.to_vec());
    let mut model = Model::new();
    steps.iter().for_each(|step| apply(&fs, &mut model, step));
    compare(&fs, &model);
    let open: Vec<usize> = model.objects.iter().filter(|(_, o)| o.opens > 0).map(|(id, _)| *id).collect();
    for id in open {
        let object = model.object(id);
        (0..object.opens).for_each(|_| fs.volume.inode_ops().release(object.ino).expect("release"));
        object.opens = 0;
        if object.links == 0 {
            model.objects.remove(&id);
        }
    }
    let bytes = fs.bytes();
    fsck(&bytes, "after the case");
    compare(&Fs::open(bytes), &model);
}

/// Images with more room than any case takes.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| mkfs(32, &["-b", "1024", "-N", "16384"]));
static PLAIN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    mkfs(32, &["-b", "1024", "-N", "16384", "-O", "^metadata_csum,^dir_index,^filetype", "-I", "128"])
});
static USUAL: LazyLock<Vec<u8>> = LazyLock::new(|| mkfs(48, &["-b", "4096", "-N", "16384", "-O", "orphan_file"]));

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_blocks(steps in steps()) {
        case(&SMALL, &steps);
    }

    #[test]
    fn old_features(steps in steps()) {
        case(&PLAIN, &steps);
    }

    #[test]
    fn usual_image(steps in steps()) {
        case(&USUAL, &steps);
    }
}
