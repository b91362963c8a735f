//! Making volumes and pools: nothing is lost before it is certain that something is made.

use crate::namespace::{place, run};
use crate::place::ondol;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Exit code and what was said of it.
fn tried(args: &[&str], target: &Path, more: &[&Path]) -> (Option<i32>, String) {
    let out = ondol().args(args).arg(target).args(more).output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// What shows that nobody has written to a file.
fn state(path: &Path) -> (u64, SystemTime, Vec<u8>) {
    let meta = fs::metadata(path).unwrap();
    let mut begin = vec![0; meta.len().min(1 << 20) as usize];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(path).unwrap(), &mut begin, 0).unwrap();
    (meta.len(), meta.modified().unwrap(), begin)
}

/// Who would make something on `target` refuses, names what is there, and leaves it as it is.
fn is_kept(target: &Path, holds: &str) {
    let before = state(target);
    for (args, advice) in [
        (&["mkfs"][..], "-F makes a file system"),
        (&["mkfs", "--size", "64M"], "-F makes a file system"),
        (&["pool", "create", "--size", "400M"], "-F makes a pool"),
    ] {
        let (code, said) = tried(args, target, &[]);
        assert!(
            code == Some(1) && said.contains(holds) && said.contains(advice),
            "{args:?} over {holds}: {code:?} {said}"
        );
        assert!(state(target) == before, "{args:?} wrote over {holds}");
    }
}

#[test]
fn what_a_target_holds_is_named_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    // The size of the target, what makes the contents of the target ($1), and what they are called.
    let contents: [(u64, &str, &str); 11] = [
        (64, "mke2fs -q \"$1\"", "an ext2, ext3 or ext4 file system"),
        (320, "mkfs.xfs -q -f \"$1\"", "an XFS file system"),
        (160, "mkfs.btrfs -q \"$1\"", "a Btrfs file system"),
        (64, "mkswap \"$1\"", "swap space"),
        (64, "echo ', 10M' | sfdisk -q -X gpt \"$1\"", "a GPT partition table"),
        (64, "echo ', 10M' | sfdisk -q -X dos \"$1\"", "a partition table"),
        (0, "rm \"$1\"; sqlite3 \"$1\" 'create table t(a); insert into t values(1)'", "a SQLite database"),
        (0, "tar -cf \"$1\" -C /etc passwd", "a tar archive"),
        (0, "gzip -c /etc/passwd > \"$1\"", "a gzip file"),
        (0, "cat /etc/passwd > \"$1\"", "text"),
        (64, "printf x | dd of=\"$1\" bs=1 seek=4096 conv=notrunc", "something: byte 4096 is not zero"),
    ];
    for (mib, make, holds) in contents {
        let _ = fs::remove_file(&target);
        File::create(&target).unwrap().set_len(mib << 20).unwrap();
        let made = Command::new("sh").args(["-ec", make, "-"]).arg(&target).env("PATH", path()).output().unwrap();
        if !made.status.success() {
            ondol_skips::skip(format!("{holds}: {}", String::from_utf8_lossy(&made.stderr).trim()));
            continue;
        }
        is_kept(&target, holds);
    }
    // A pool is something, too; what is all zeros is not.
    let _ = fs::remove_file(&target);
    assert_eq!(tried(&["pool", "create", "--size", "64M"], &target, &[]).0, Some(0));
    is_kept(&target, "an NVM pool");
    assert_eq!(tried(&["mkfs", "-F"], &target, &[]).0, Some(0));
    for bytes in [0, 64 << 20] {
        File::create(&target).unwrap().set_len(bytes).unwrap();
        let (code, said) = tried(&["mkfs", "--size", "64M"], &target, &[]);
        assert_eq!(code, Some(0), "{said}");
    }
    let clean = Command::new("e2fsck").arg("-fn").arg(&target).env("PATH", path()).output();
    assert!(clean.is_ok_and(|out| out.status.success()));
}

fn path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Wishes that cannot be fulfilled.
const WRONG: &[&[&str]] = &[
    &["-L", "seventeen letters"],
    &["-O", "sparkling"],
    &["-O", "^has_journal,encrypt"],
    &["-b", "3000"],
    &["-b", "8192"],
    &["-N", "4000000000"],
    &["--journal-size", "4K"],
    &["--journal-size", "10G"],
    &["--size", "1K"],
    &["--size", "9000000T"],
];

#[test]
fn a_wrong_wish_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (volume, absent) = (dir.path().join("volume"), dir.path().join("absent"));
    assert_eq!(tried(&["mkfs", "--size", "64M", "-L", "old"], &volume, &[]).0, Some(0));
    let before = state(&volume);
    for wish in WRONG {
        let sized = if wish[0] == "--size" { wish.to_vec() } else { [&["--size", "64M"], *wish].concat() };
        for (args, target) in
            [([&["mkfs", "-F"], *wish].concat(), &volume), ([&["mkfs"], &sized[..]].concat(), &absent)]
        {
            let (code, said) = tried(&args, target, &[]);
            assert!(code.is_some_and(|code| code != 0) && said.lines().count() == 1, "{args:?}: {code:?} {said}");
            assert!(state(&volume) == before, "{args:?} wrote: {said}");
            assert!(!absent.exists(), "{args:?} left a file: {said}");
        }
    }
    // What a mount would have made.
    let point = dir.path().join("point");
    fs::create_dir(&point).unwrap();
    let (code, said) = tried(&["mount", "--create", "1K"], &absent, &[&point]);
    assert!(code == Some(32) && !absent.exists(), "{code:?} {said}");
}

#[test]
fn a_full_medium_costs_nothing() {
    let Some(place) = place() else { return };
    run(
        &place,
        r#"
mkdir "$D/mnt-small"; mount -t tmpfs -o size=2M none "$D/mnt-small"
T=$D/mnt-small/image
"$D/ondol" mkfs --size 16M -L old "$T"
head -c 1M /dev/urandom > "$D/mnt-small/other" || :
cat /dev/urandom > "$D/mnt-small/more" 2>/dev/null || :
sum=$(sha256sum < "$T")
fails 1 "$D/ondol" mkfs -F --size 512M -b 1024 "$T"; says 'No space'
[ "$sum" = "$(sha256sum < "$T")" ]
e2fsck -fn "$T"
fails 1 "$D/ondol" mkfs --size 64M "$D/mnt-small/new"; says 'No space'
[ ! -e "$D/mnt-small/new" ]
fails 32 "$D/ondol" mount --create 64M "$D/mnt-small/new" "$M"; says 'No space'
[ ! -e "$D/mnt-small/new" ]
rm "$D/mnt-small/more" "$D/mnt-small/other"
"$D/ondol" mkfs -F --size 32M -L new "$T"
e2fsck -fn "$T"
"#,
    );
}

/// Lines of `dumpe2fs -h` that say how an image was made.
const MADE: [&str; 6] =
    ["Filesystem UUID", "Reserved block count", "Inode count", "Block size", "Block count", "Inodes per group"];

/// What mke2fs makes of the same options.
#[test]
fn options_of_mke2fs_mean_the_same() {
    if ondol_skips::skips(ondol_skips::missing(&["mke2fs", "dumpe2fs", "e2fsck"])) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let tool = |name: &str| Command::new(ondol_skips::find(name).unwrap());
    let header = |path: &Path| -> Vec<String> {
        let told = tool("dumpe2fs").arg("-h").arg(path).output().unwrap().stdout;
        let told = String::from_utf8(told).unwrap();
        told.lines().filter(|line| MADE.iter().any(|key| line.starts_with(key))).map(str::to_owned).collect()
    };
    const UUID: &str = "12345678-9abc-def0-0102-030405060708";
    let mut wishes: Vec<Vec<&str>> = vec![
        vec!["-m", "0"],
        vec!["-m", "0.5"],
        vec!["-m", "33.33"],
        vec!["-i", "65536"],
        vec!["-T", "news,big"],
        vec!["-T", "news", "-b", "1024"],
        vec!["-T", "huge", "-N", "5000"],
    ];
    let types = ["floppy", "small", "default", "news", "big", "huge", "largefile", "largefile4"];
    wishes.extend(types.iter().filter(|name| **name != "default").map(|name| vec!["-T", name]));
    for wish in wishes {
        let _ = (fs::remove_file(&ours), fs::remove_file(&theirs));
        File::create(&theirs).unwrap().set_len(300 << 20).unwrap();
        let made = tool("mke2fs").args(["-q", "-t", "ext4", "-U", UUID]).args(&wish).arg(&theirs).output().unwrap();
        assert!(made.status.success(), "{wish:?}: {}", String::from_utf8_lossy(&made.stderr));
        let (code, said) = tried(&[&["mkfs", "-q", "--size", "300M", "-U", UUID], &wish[..]].concat(), &ours, &[]);
        assert_eq!(code, Some(0), "{wish:?}: {said}");
        assert_eq!(header(&ours), header(&theirs), "{wish:?}");
        assert!(tool("e2fsck").arg("-fn").arg(&ours).output().unwrap().status.success(), "{wish:?}");
    }
    assert_eq!(tried(&["mkfs", "-F", "-U", "clear"], &ours, &[]).0, Some(0));
    assert!(header(&ours).iter().any(|line| line.contains("<none>")));
}

#[test]
fn a_directory_is_copied_into_what_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (files, image) = (dir.path().join("files"), dir.path().join("image"));
    let make = r#"
mkdir -p "$1/sub"; printf text > "$1/sub/file"; chmod 600 "$1/sub/file"
ln "$1/sub/file" "$1/other"; ln -s sub/file "$1/link"
touch -d '2001-02-03 04:05:06 UTC' "$1/other"; chmod 751 "$1"
"#;
    assert!(Command::new("sh").args(["-ec", make, "-"]).arg(&files).status().unwrap().success());
    let with: Vec<&str> = vec!["mkfs", "--size", "16M", "-d", files.to_str().unwrap()];
    assert_eq!(tried(&with, &image, &[]), (Some(0), String::new()));
    let said = |args: &[&str]| {
        let out = ondol().args(args).arg(&image).arg("/").output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(said(&["ls", "-R"]), "/:\nlink\nlost+found\nother\nsub\n\n/lost+found:\n\n/sub:\nfile\n");
    let long = said(&["ls", "-l"]);
    assert!(long.contains(" 2001-02-03 04:05 other\n") && long.contains("-rw------- 2 "), "{long}");
    assert!(said(&["ls", "-ld"]).starts_with("drwxr-x--x "));
    let clean = Command::new("e2fsck").arg("-fn").arg(&image).env("PATH", path()).output();
    assert!(clean.is_ok_and(|out| out.status.success()));
    // What does not fit leaves no image, and what cannot be read costs nothing.
    fs::write(files.join("large"), vec![1; 20 << 20]).unwrap();
    let new = dir.path().join("new");
    let (code, said) = tried(&with, &new, &[]);
    assert!(code == Some(1) && said.contains("no space left on the volume") && !new.exists(), "{code:?} {said}");
    let absent = dir.path().join("absent");
    let before = state(&image);
    for target in [&image, &new] {
        let (code, said) = tried(&["mkfs", "-F", "--size", "16M", "-d", absent.to_str().unwrap()], target, &[]);
        assert!(code == Some(1) && said.contains("cannot read the directory"), "{code:?} {said}");
    }
    assert!(state(&image) == before && !new.exists());
}
