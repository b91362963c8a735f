//! `ls` beside debugfs.

use super::{Desk, make_tree};
use crate::place::output;

/// Lines of debugfs, `/inode/mode/uid/gid/name/size/`, say the same as those of `ls -li`.
#[test]
fn long_lines_are_what_debugfs_reads() {
    let desk = Desk::new();
    make_tree(&desk);
    desk.does("cp -a disk.img tree :/");
    let ours = desk.does("ls -lia disk.img /tree");
    let Some(theirs) = desk.debugfs("ls -p /tree") else { return };
    // A name with a new line in it is two lines there.
    let lines: Vec<Vec<&str>> =
        theirs.lines().map(|line| line.split('/').collect()).filter(|parts: &Vec<&str>| parts.len() == 8).collect();
    assert!(lines.len() > 8, "{theirs}");
    for parts in lines {
        let &[_, ino, mode, uid, gid, name, size, _] = &parts[..] else { unreachable!() };
        let line = ours
            .lines()
            .find(|line| {
                line.split_whitespace().next() == Some(ino)
                    && (line.contains(&format!(" {name} ->")) || line.ends_with(&format!(" {name}")))
            })
            .unwrap_or_else(|| panic!("{name}: {ours}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[3], words[4]), (uid, gid), "{line}");
        let kind = match &mode[..2] {
            "04" => 'd',
            "10" => '-',
            "12" => 'l',
            "02" => 'c',
            "01" => 'p',
            other => panic!("{other}"),
        };
        assert!(words[1].starts_with(kind), "{line}");
        let bits = u32::from_str_radix(&mode[mode.len() - 4..], 8).unwrap();
        let shown = words[1].as_bytes();
        assert_eq!(bits & 0o400 != 0, shown[1] == b'r', "{line}");
        assert_eq!(bits & 0o2000 != 0, shown[6].eq_ignore_ascii_case(&b's'), "{line}");
        assert_eq!(bits & 0o1000 != 0, shown[9].eq_ignore_ascii_case(&b't'), "{line}");
        // debugfs has no size of directories and devices.
        if kind == '-' {
            assert_eq!(words[5], size, "{line}");
        }
    }
    let line = ours.lines().find(|line| line.ends_with(" file")).unwrap();
    assert!(line.contains(" 2001-02-03 04:05 "), "{line}");
    assert!(ours.contains(" 1969-12-31 12:00 dangling -> /nowhere\n"), "{ours}");
    assert!(ours.contains(" a^Jb ^[[1m\n"), "{ours}");
}

#[test]
fn names_come_as_they_are_asked_for() {
    let desk = Desk::new();
    desk.sh(r#"
mkdir -p d/sub d/.hidden; printf 1234567890 > d/b; : > d/a; : > d/.dot; printf 12345 > d/sub/c; ln -s sub d/way
touch -d 2001-01-01 d/b; touch -d 2002-01-01 d/a
"$ONDOL" cp -a disk.img d :/
"#);
    for (call, said) in [
        ("ls disk.img", "d\nlost+found\n"),
        ("ls disk.img d", "a\nb\nsub\nway\n"),
        ("ls -A disk.img d", ".dot\n.hidden\na\nb\nsub\nway\n"),
        ("ls -a disk.img d", ".\n..\n.dot\n.hidden\na\nb\nsub\nway\n"),
        ("ls -r disk.img :/d", "way\nsub\nb\na\n"),
        ("ls -t disk.img d/a d/b", "d/a\nd/b\n"),
        ("ls -tr disk.img d/a d/b", "d/b\nd/a\n"),
        ("ls -S disk.img d/a d/b", "d/b\nd/a\n"),
        ("ls -d disk.img d d/sub", "d\nd/sub\n"),
        ("ls disk.img d/way", "c\n"),
        ("ls -d disk.img d/way", "d/way\n"),
        ("ls disk.img d/b d/sub d/a", "d/a\nd/b\n\nd/sub:\nc\n"),
        ("ls -R disk.img d", "d:\na\nb\nsub\nway\n\nd/sub:\nc\n"),
        ("ls -RA disk.img d", "d:\n.dot\n.hidden\na\nb\nsub\nway\n\nd/.hidden:\n\nd/sub:\nc\n"),
        ("ls -Rr disk.img d", "d:\nway\nsub\nb\na\n\nd/sub:\nc\n"),
        ("ls -Ra disk.img d/sub", "d/sub:\n.\n..\nc\n"),
        ("ls -R disk.img d d/sub", "d:\na\nb\nsub\nway\n\nd/sub:\nc\n\nd/sub:\nc\n"),
        ("ls -0 disk.img d", "a\0b\0sub\0way\0"),
    ] {
        assert_eq!(desk.does(call), said, "{call}");
    }
    assert!(
        desk.does("ls -lh disk.img lost+found -d").contains(" 12K ")
            || desk.does("ls -lh disk.img / -d").contains("1.0K")
    );
    // As ls(1): 2 for what was named, and what can be listed is.
    let out = output(&mut desk.ondol(&["ls", "disk.img", "/absent", "/d/sub"]));
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(2), &b"/d/sub:\nc\n"[..]));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "ondol: disk.img:/absent: no such file or directory\n");
    // A pattern is a name as any other.
    assert_eq!(desk.refuses("ls disk.img /d/*", 2), "ondol: disk.img:/d/*: no such file or directory\n");
    assert!(desk.refuses("ls absent.img", 2).contains("absent.img"));
    assert!(desk.refuses("ls --sparkle disk.img", 2).contains("--sparkle"));
}
