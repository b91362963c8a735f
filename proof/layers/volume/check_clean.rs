//! The check finds nothing on images that e2fsck finds nothing on: every option set of mke2fs that is supported, empty
//! and filled by debugfs and by the kernel.

use crate::rig::{ImageFile, assert_clean, checked, mkfs, with_kernel};
use std::fmt::Write;
use std::path::Path;

/// Sizes in MiB and options of mke2fs.
const IMAGES: [(u64, &[&str]); 14] = [
    (16, &[]),
    (16, &["-b", "1024"]),
    (16, &["-b", "2048"]),
    (64, &["-b", "4096"]),
    (64, &["-O", "metadata_csum,orphan_file,metadata_csum_seed"]),
    (64, &["-b", "1024", "-O", "^metadata_csum,uninit_bg"]),
    (64, &["-O", "^metadata_csum,^uninit_bg,^64bit"]),
    (64, &["-b", "1024", "-g", "1024", "-O", "orphan_file"]),
    (64, &["-b", "1024", "-g", "1024", "-O", "^flex_bg"]),
    (64, &["-b", "1024", "-g", "2048", "-O", "meta_bg,^resize_inode"]),
    (64, &["-O", "^resize_inode,^has_journal"]),
    (64, &["-O", "sparse_super2,^resize_inode"]),
    (64, &["-O", "^extent,^64bit"]),
    (64, &["-I", "128"]),
];

#[test]
fn empty_images() {
    for (mib, options) in IMAGES {
        let bytes = mkfs(mib, options);
        let report = checked(&bytes);
        assert_clean(&bytes, &format!("{options:?}"));
        assert!(report.directories == 2 && report.notes.is_empty(), "{options:?}: {:?}", report.notes);
    }
}

/// The resize inode of a grown volume has given some of its reserve away, and copies of the rest in more groups.
#[test]
fn grown_images() {
    let file = ImageFile::new(&mkfs(16, &["-b", "1024"]));
    for size in ["64M", "300M", "301M", "20M"] {
        let output = crate::rig::run("resize2fs", &[&file.name(), size]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_clean(&file.bytes(), size);
    }
}

/// Directories (one large), files with holes, links, devices and attributes.
fn requests(dir: &Path) -> String {
    let (small, sparse) = (dir.join("small"), dir.join("sparse"));
    std::fs::write(&small, "a few bytes").expect("a file");
    let file = std::fs::File::create(&sparse).expect("a file");
    use std::os::unix::fs::FileExt;
    for i in 0..40 {
        file.write_all_at(&[i as u8 + 1; 5000], i * 30_000).expect("a write");
    }
    let mut text = "mkdir d\nmkdir d/sub\n".to_owned();
    for i in 0..300 {
        let _ = writeln!(text, "write {} d/a_long_name_for_a_file_{i}", small.display());
    }
    let _ = writeln!(text, "write {} sparse\nsymlink short d\nmknod fifo p\nmknod dev c 300 300", sparse.display());
    let _ = writeln!(text, "symlink long {}", "far/".repeat(40));
    let _ = writeln!(text, "ea_set sparse user.one value\nea_set sparse user.two {}", "v".repeat(300));
    let _ = writeln!(text, "ea_set d user.big {}", "w".repeat(700));
    text
}

#[test]
fn images_filled_by_debugfs() {
    for (mib, options) in IMAGES {
        let file = ImageFile::new(&mkfs(mib, options));
        let dir = crate::rig::scratch();
        file.debugfs(&requests(dir.path()));
        let bytes = file.bytes();
        assert_clean(&bytes, &format!("{options:?}"));
        assert!(checked(&bytes).inodes > 300, "{options:?}");
    }
}

#[test]
fn images_filled_by_the_kernel() {
    for (mib, options) in IMAGES {
        let Some(bytes) = with_kernel(&mkfs(mib, options), fill) else { return };
        assert_clean(&bytes, &format!("{options:?}"));
        assert!(checked(&bytes).inodes > 900, "{options:?}");
    }
}

/// Work of many kinds, some of it undone again.
fn fill(at: &Path) {
    let script = r#"
        mkdir big deep && cd big
        for i in $(seq 800); do : > "file_with_a_longer_name_$i"; done
        for i in $(seq 1 3 800); do rm "file_with_a_longer_name_$i"; done
        for i in $(seq 400); do echo "$i" > "second_$i"; done
        cd ../deep; for i in $(seq 20); do mkdir $i; cd $i; done; cd "$OLDPWD"; cd ..
        for i in $(seq 0 2 200); do dd if=/dev/zero of=holes bs=1k count=1 seek=$((i*16)) conv=notrunc status=none; done
        fallocate -l 300k prealloc; fallocate -p -o 64k -l 32k prealloc
        dd if=/dev/urandom of=data bs=64k count=20 status=none; truncate -s 500000 data; truncate -s 700000 data
        ln data data2; ln -s short s1; ln -s "$(printf 'x%.0s' $(seq 200))" s2; mkfifo p; mknod c c 1 3
        setfattr -n user.a -v b data 2>/dev/null
        setfattr -n user.big -v "$(printf 'y%.0s' $(seq 600))" data 2>/dev/null
        for i in 1 2 3; do
            echo x > shared$i
            setfacl -m u:1:r,u:2:r,u:3:r,u:4:r,u:5:r,u:6:r,u:7:r,u:8:r,u:9:r shared$i 2>/dev/null
        done
        rm -r deep/1/2/3; mv big/second_1 moved; true
    "#;
    let done = std::process::Command::new("sh").args(["-c", script]).current_dir(at).output().expect("sh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
