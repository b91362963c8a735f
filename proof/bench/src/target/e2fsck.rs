//! Whether what a file system has left is whole.

use crate::BenchError;
use crate::command::Program;
use crate::error::Context;
use std::path::Path;

/// What `e2fsck -fn` finds in `image`, in words; `None` if nothing.
pub(super) fn damage(image: &Path) -> Result<Option<String>, BenchError> {
    let (mut command, text) = Program::new("e2fsck")?.arg("-fn").arg(image).into_parts();
    let output = command.output().context(|| text.clone())?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(if output.status.success() { None } else { summary(&said) })
}

/// The first problem and how many there are. Each is told, then asked about, which `-n` answers; what could only be
/// better is none.
fn summary(said: &str) -> Option<String> {
    let (mut first, mut count, mut optimize, mut before) = (None, 0, false, "it said nothing");
    for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.ends_with("Optimize? no") {
            optimize = true;
        } else if line.ends_with("? no") {
            first = first.or(Some(line.rsplit_once(". ").map_or(before, |(problem, _question)| problem)));
            count += 1;
        }
        before = line;
    }
    match first {
        Some(first) => Some(format!("e2fsck finds {first} (problems: {count})")),
        None if optimize => None,
        None => Some(format!("e2fsck refuses it: {before}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_whole_image_has_no_damage_and_a_broken_one_has() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("x.img");
        fs::File::create_new(&image).expect("file").set_len(16 << 20).expect("length");
        let Ok(mke2fs) = Program::new("mke2fs") else { return ondol_skips::skip("mke2fs is missing") };
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096"]).arg(&image).run().expect("mke2fs");
        assert_eq!(damage(&image).expect("e2fsck"), None);

        // The free blocks of the superblock, whose checksum goes wrong with them.
        let file = fs::File::options().write(true).open(&image).expect("open");
        file.write_all_at(&[1], 1024 + 12).expect("write");
        let found = damage(&image).expect("e2fsck").expect("damage");
        assert!(found.starts_with("e2fsck "), "{found}");
        file.write_all_at(&[0; 4096], 0).expect("write");
        let found = damage(&image).expect("e2fsck").expect("damage");
        assert!(found.starts_with("e2fsck "), "{found}");
    }

    #[test]
    fn the_first_problem_is_told() {
        let said = "Pass 1: Checking inodes\nFree blocks count wrong (1, counted=2).\nFix? no\n\nUnattached inode 13\n\
                    Connect to /lost+found? no\n";
        assert_eq!(
            summary(said).as_deref(),
            Some("e2fsck finds Free blocks count wrong (1, counted=2). (problems: 2)")
        );
        let said = "Inode 12 extent tree (at level 1) could be narrower.  Optimize? no\n";
        assert_eq!(summary(said), None);
        let said = format!("{said}\nInode 12, i_blocks is 1040, should be 1056.  Fix? no\n\nPass 2: Checking\n");
        let found = "e2fsck finds Inode 12, i_blocks is 1040, should be 1056 (problems: 1)";
        assert_eq!(summary(&said).as_deref(), Some(found));
        assert_eq!(summary("\nBad magic number\n").as_deref(), Some("e2fsck refuses it: Bad magic number"));
    }
}
