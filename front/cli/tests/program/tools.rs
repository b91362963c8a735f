//! `ondol ls`, `cat` and `cp`: what they do to an image is what debugfs, e2fsck and the kernel see, and what they print
//! is what they say.

mod damage;
mod listing;

use crate::place::{Place, fails, needs_root, ondol, output, succeeds};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory with an empty image in it.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self::made(&["--size", "64M"])
    }

    fn made(options: &[&str]) -> Self {
        let desk = Self { dir: tempfile::tempdir().unwrap() };
        succeeds(desk.ondol(&["mkfs"]).args(options).arg("disk.img"));
        desk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program in this directory.
    fn ondol(&self, args: &[&str]) -> Command {
        let mut command = ondol();
        command.current_dir(self.dir.path()).args(args);
        command
    }

    fn does(&self, line: &str) -> String {
        succeeds(self.ondol(&line.split(' ').collect::<Vec<_>>()).stdin(Stdio::null()))
    }

    fn refuses(&self, line: &str, code: i32) -> String {
        fails(&mut self.ondol(&line.split(' ').collect::<Vec<_>>()), code)
    }

    /// Runs a script of the shell; `$ONDOL` is the program.
    fn sh(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).current_dir(self.dir.path()).env("ONDOL", env!("CARGO_BIN_EXE_ondol"));
        let out = output(shell.stdin(Stdio::null()));
        let (told, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{script}: {told}{said}");
        told.into_owned()
    }

    /// What debugfs answers; `None`, noted as skipped, without it.
    fn debugfs(&self, request: &str) -> Option<String> {
        if ondol_skips::skips(ondol_skips::missing(&["debugfs"])) {
            return None;
        }
        let mut command = Command::new(ondol_skips::find("debugfs")?);
        Some(succeeds(command.args(["-R", request]).arg(self.at("disk.img"))))
    }

    /// e2fsck finds nothing.
    fn is_clean(&self) {
        let out = crate::place::fsck(&self.at("disk.img"));
        assert!(out.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{out:?}");
    }
}

/// A tree with everything that copying may lose; what an ordinary user cannot make is left out.
fn make_tree(desk: &Desk) {
    desk.sh(r#"
umask 022
mkdir -p tree/sub/deep tree/empty; chmod 2750 tree/sub; chmod 1777 tree/empty
printf 'hello world' > tree/file; chmod 640 tree/file
printf '#!/bin/sh\n' > tree/program; chmod 4755 tree/program
: > tree/nothing
ln tree/file tree/sub/same
ln -s ../file tree/sub/link; ln -s /nowhere tree/dangling
truncate -s 20M tree/holes
printf middle | dd of=tree/holes bs=1 seek=9437184 conv=notrunc status=none
seq 200000 > tree/sub/deep/large
mkfifo tree/pipe
printf odd > "tree/$(printf 'a\nb \033[1m')"
touch -d '2001-02-03 04:05:06.123456789 UTC' tree/file tree/sub/deep/large
touch -h -d '1969-12-31 12:00 UTC' tree/dangling
touch -d '2030-01-01 UTC' tree/sub tree/empty
"#);
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(desk.at(path), name, value, rustix::fs::XattrFlags::empty())
    };
    // An ACL: rw for the owner, r for user 1234 and the group, at most rw for both.
    let acl: Vec<u8> = [(1u16, 6u16, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
        .iter()
        .flat_map(|(tag, perm, id)| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat())
        .collect();
    let acl = [&2u32.to_le_bytes()[..], &acl].concat();
    let done = set("tree/file", "user.origin", b"here")
        .and_then(|()| set("tree/nothing", "system.posix_acl_access", &acl))
        .and_then(|()| set("tree/empty", "system.posix_acl_default", &acl));
    ondol_skips::skips(done.err().map(|e| format!("attributes and ACLs of files here: {e}")));
    if needs_root().is_none() {
        desk.sh(
            "mknod tree/null c 1 3; chown 12:34 tree/null; chown -h 1000:1000 tree/dangling; chmod 755 tree/program",
        );
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let to = desk.at("tree/program");
        rustix::fs::setxattr(to, "security.capability", &capability, rustix::fs::XattrFlags::empty()).unwrap();
    }
}

/// All that is to be the same of a file and its copy.
#[derive(PartialEq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    device: u64,
    mtime: (i64, i64),
    nlink: u64,
    contents: Vec<u8>,
    /// Whether it has less room than its size.
    sparse: bool,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Seen {
    /// The same without contents, which may be long.
    fn text(&self) -> String {
        let Self { mode, owner, device, mtime, nlink, contents, sparse, attributes } = self;
        format!("{mode:o} {owner:?} {device} {mtime:?} {nlink} {} {sparse} {attributes:?}", contents.len())
    }
}

fn seen(dir: &Path) -> BTreeMap<PathBuf, Seen> {
    fn walk(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, Seen>) {
        let meta = path.symlink_metadata().unwrap();
        let contents = match () {
            () if meta.is_file() => fs::read(path).unwrap(),
            () if meta.is_symlink() => fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
            () => Vec::new(),
        };
        let mut names = vec![0; 4096];
        let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
        let names =
            names[..len].split(|b| *b == 0).filter(|name| !name.is_empty() && !name.starts_with(b"security.selinux"));
        let attributes = names.map(|name| {
            let mut value = vec![0; 4096];
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            (name.to_vec(), value[..len].to_vec())
        });
        let it = Seen {
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            device: meta.rdev(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            nlink: if meta.is_dir() { 0 } else { meta.nlink() },
            contents,
            sparse: meta.is_file() && meta.blocks() * 512 + 4096 < meta.len(),
            attributes: attributes.collect(),
        };
        found.insert(path.strip_prefix(root).unwrap().to_owned(), it);
        if meta.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| walk(root, &entry.unwrap().path(), found));
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found);
    found
}

/// Both trees hold the same; those that differ are named.
fn is_same(one: &BTreeMap<PathBuf, Seen>, other: &BTreeMap<PathBuf, Seen>) {
    assert!(one.keys().eq(other.keys()), "{:?}\n{:?}", one.keys(), other.keys());
    for (path, seen) in one {
        assert!(*seen == other[path], "{}: {}\n{}", path.display(), seen.text(), other[path].text());
    }
}

#[test]
fn what_is_copied_in_and_out_is_the_same() {
    let desk = Desk::new();
    make_tree(&desk);
    let before = seen(&desk.at("tree"));
    assert!(before[Path::new("holes")].sparse);
    desk.does("cp -a disk.img tree :/");
    desk.is_clean();
    if let Some(told) = desk.debugfs("stat /tree/file") {
        for words in ["Mode:  0640", "Links: 2", "mtime: 0x3a7b8372:1d6f3454", "Size: 11"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
    if let Some(told) = desk.debugfs("stat /tree/holes") {
        let blocks = told.split("Blockcount: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        assert!(blocks.parse::<u64>().unwrap() < 100, "{told}");
    }
    fs::create_dir(desk.at("out")).unwrap();
    desk.does("cp -a disk.img :/tree out");
    is_same(&seen(&desk.at("out/tree")), &before);
    // Within the image, and what is in a directory into one that is there.
    desk.does("cp -a disk.img :/tree :/copy");
    desk.does("cp -a disk.img :/copy/. out/tree");
    is_same(&seen(&desk.at("out/tree")), &before);
    desk.is_clean();
}

#[test]
fn the_kernel_sees_what_was_copied_in() {
    if ondol_skips::skips(needs_root()) {
        return;
    }
    let desk = Desk::new();
    make_tree(&desk);
    desk.does("cp -a disk.img tree :/");
    // Copied by the kernel, whose loop device and mount go with the namespace.
    let tried = Command::new("unshare")
        .args(["--mount", "sh", "-ec", "mkdir mnt; mount -o loop,ro disk.img mnt; cp -a mnt/tree kernel; umount mnt"])
        .current_dir(desk.dir.path())
        .output()
        .unwrap();
    if !tried.status.success() {
        ondol_skips::skip(format!("a mount by the kernel: {}", String::from_utf8_lossy(&tried.stderr)));
        return;
    }
    is_same(&seen(&desk.at("kernel")), &seen(&desk.at("tree")));
}

#[test]
fn copies_without_options_are_the_callers_own() {
    let desk = Desk::new();
    make_tree(&desk);
    desk.sh(r#"
umask 027
# A link that is named is followed, a pipe or directory is not copied.
"$ONDOL" cp disk.img tree/sub/link tree/program :/
"$ONDOL" cp -r disk.img tree :/copied
"$ONDOL" ls -l disk.img / /copied > said
grep -q '^-rw-r----- 1 .* 11 .* /\{0,1\}link$' said
grep -q '^-rwxr-x--- 1 .* program$' said
grep -q '^drwxr-x--- 2 .* empty$' said
grep -q '^drwxr-x--- 3 .* sub$' said
grep -q '^lrwxrwxrwx 1 .* dangling -> /nowhere$' said
grep -q '^prw-r----- 1 .* pipe$' said
"$ONDOL" cp disk.img :/link back; cmp back tree/file
[ "$(stat -c %a back)" = 640 ]
# Into a directory of several, by -t, and with -T onto a name.
mkdir into; "$ONDOL" cp -v disk.img :/link :/program into > said
grep -q '^disk.img:/link -> into/link$' said
"$ONDOL" cp -t into disk.img :/copied/nothing; [ -e into/nothing ]
"$ONDOL" cp -rT disk.img :/copied into; [ -e into/sub/deep/large ]
# What is there is written over, or with -n left.
printf new > file; "$ONDOL" cp disk.img file :/copied; [ "$("$ONDOL" cat disk.img /copied/file)" = new ]
printf newer > file; "$ONDOL" cp -n disk.img file :/copied; [ "$("$ONDOL" cat disk.img /copied/file)" = new ]
# Standard input and output.
seq 100000 | "$ONDOL" cp disk.img - :/numbers; "$ONDOL" cp disk.img :/numbers - | cmp - "$(seq 100000 > n; echo n)"
"$ONDOL" cp disk.img :/copied/holes - | cmp - tree/holes
"#);
    desk.is_clean();
}

#[test]
fn cat_writes_one_after_the_other() {
    let desk = Desk::new();
    desk.sh(r#"
printf 'one\n' > one; printf 'two\n' > two; head -c 3000000 /dev/urandom > large
"$ONDOL" cp disk.img one two large :/
[ "$(echo in | "$ONDOL" cat disk.img one - :/two)" = "$(printf 'one\nin\ntwo')" ]
"$ONDOL" cat disk.img /large | cmp - large
# Who reads no more gets no error.
"$ONDOL" cat disk.img /large /large 2> said | head -c 10 > first
[ ! -s said ] && cmp -n 10 first large
"#);
    let out = output(&mut desk.ondol(&["cat", "disk.img", "/absent", "/one", "/", "/two"]));
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(1), &b"one\ntwo\n"[..]));
    let said = String::from_utf8(out.stderr).unwrap();
    let expected = "ondol: disk.img:/absent: no such file or directory\nondol: disk.img:/: it is a directory\n";
    assert_eq!(said, expected);
    let full = desk.sh("code=0; \"$ONDOL\" cat disk.img /one > /dev/full 2> said || code=$?; echo $code; cat said");
    assert_eq!(full, "1\nondol: cannot write to standard output: No space left on device\n");
}

#[test]
fn errors_say_what_and_where() {
    let desk = Desk::new();
    make_tree(&desk);
    for (call, said) in [
        ("cp disk.img absent :/", "absent: there is no such file or directory"),
        ("cp disk.img :/absent .", "disk.img:/absent: there is no such file or directory"),
        ("cp disk.img tree :/", "tree: it is a directory; -r copies it"),
        ("cp disk.img tree/file :/no/where", "disk.img:/no/where: no such file or directory"),
        ("cp disk.img tree/file :/no/", "disk.img:/no/: there is no such directory"),
        (
            "cp disk.img tree/file tree/program :/no",
            "disk.img:/no: it is no directory, into which several files could be copied",
        ),
        ("cp -t :/no disk.img tree/file", "disk.img:/no: it is no directory"),
        ("cp disk.img - :/", "disk.img:/: it is a directory: name the file that standard input is to be written to"),
        ("cp -r disk.img :/ :/x", "disk.img:/: a directory cannot be copied into itself"),
        (
            "cp disk.img tree/file file",
            "a path in the image begins with a colon, as in :/etc/fstab, and of a source and a target one must be \
             there",
        ),
        ("cp disk.img :/x", "the target is missing (`ondol cp --help` says more)"),
        ("cat absent.img /x", "cannot open absent.img: No such file or directory"),
        ("cat tree/file /x", "tree/file: not an ext4 file system: it has 11 bytes"),
        ("cat -o sparkle disk.img /x", "unknown mount option `sparkle`: `ondol mount --help` lists them"),
        ("cp -o ro disk.img tree/file :/x", "option `ro` does not go with a command that writes"),
    ] {
        let got = desk.refuses(call, 1);
        if call.starts_with("cat tree/file") {
            // What is no image says the library.
            assert!(got.contains("tree/file"), "{got}");
        } else {
            assert_eq!(got, format!("ondol: {said}\n"), "{call}");
        }
    }
    // What can be copied is; the exit code tells of the rest.
    let out = output(&mut desk.ondol(&["cp", "disk.img", "absent", "tree/file", "tree/sub", ":/"]));
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(desk.does("cat disk.img /file"), "hello world");
    // A full volume: said, and what is there is whole.
    let small = Desk::made(&["--size", "8M"]);
    small
        .sh("head -c 16M /dev/urandom > large; mkdir many; for i in 1 2 3; do head -c 4M /dev/urandom > many/$i; done");
    assert!(small.refuses("cp disk.img large :/", 1).contains("no space left on the volume"));
    let out = output(&mut small.ondol(&["cp", "-r", "disk.img", "many", ":/"]));
    assert_eq!(out.status.code(), Some(1));
    small.is_clean();
}

#[test]
fn an_image_that_is_mounted_is_refused_with_the_way() {
    let Some(place) = Place::mounted("rw") else { return };
    fs::write(place.on("file"), b"text").unwrap();
    let (image, point) = (place.image(), place.mount_point());
    let pid = place.pid();
    for (command, code) in [("ls", 2), ("cat", 1), ("cp", 1)] {
        let mut call = ondol();
        call.arg(command).arg(&image).arg(":/file");
        let said = fails(if command == "cp" { call.arg("/tmp") } else { &mut call }, code);
        let (image, point) = (image.display(), point.display());
        let expected = format!(
            "ondol: {image} is mounted on {point} by process {pid}: work with its files there, or run `ondol umount \
             {point}` first\n"
        );
        assert_eq!(said, expected);
    }
    let said = fails(ondol().arg("ls").arg(&point), 2);
    assert!(said.contains("its files are there for every program"), "{said}");
    place.umount();
    place.is_clean();
}
