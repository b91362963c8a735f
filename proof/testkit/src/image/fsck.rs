//! e2fsck's opinion of an image.
//!
//! A plain `e2fsck -fn` does not look into a dirty journal. So an image that was not closed is first replayed (and its
//! orphans processed) on a copy with `-fy`, where only lines that belong to this are allowed; then `-fn` must be
//! silent.

use super::sparse::{read_sparse, write_sparse};
use super::tools::{ToolError, run, scratch_dir, text};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What e2fsck said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its exit code: 0 clean, 1 mended, 4 not mended, 8 could not work.
    pub code: i32,
    /// What it printed.
    pub output: String,
}

impl Verdict {
    /// Nothing to mend.
    pub fn is_clean(&self) -> bool {
        self.code == 0
    }

    /// Lines that tell of more than a replayed journal, processed orphans and counts in the superblock (which ext4 does
    /// not keep current while mounted). The kernel's own crashed images have exactly these too.
    pub fn unexpected(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let before = [""].iter().chain(&lines);
        let others = before.zip(&lines).filter(|(before, line)| !is_expected(before, line)).map(|(_, line)| *line);
        others.filter(|line| !is_of_a_truncate(line, &lines)).collect()
    }
}

/// Whether e2fsck says that an extent tree could be smaller, which is no fault, of an inode that it has truncated
/// itself.
fn is_of_a_truncate(line: &str, lines: &[&str]) -> bool {
    let sizes = ["could be shorter.  Optimize? yes", "could be narrower.  Optimize? yes"];
    let inode = line.strip_prefix("Inode ").and_then(|rest| rest.split_once(" extent tree (at level "));
    inode.is_some_and(|(number, rest)| {
        let truncated = format!("Truncating orphaned inode {number} ");
        sizes.iter().any(|size| rest.ends_with(size)) && lines.iter().any(|line| line.starts_with(&truncated))
    })
}

fn is_expected(before: &str, line: &str) -> bool {
    let is_count =
        |line: &str| line.starts_with("Free blocks count wrong (") || line.starts_with("Free inodes count wrong (");
    let is_orphan_file = |line: &str| {
        line.starts_with("Orphan file (inode ") && line.ends_with(" is not clean.")
            || line == "Feature orphan_present is set but orphan file is clean."
    };
    match line {
        "Fix? yes" => is_count(before),
        "Clear? yes" => is_orphan_file(before),
        _ => {
            let beginnings = ["e2fsck 1.", "Pass ", "Truncating orphaned inode ", "Clearing orphaned inode "];
            let parts = [": recovering journal", ": ***** FILE SYSTEM WAS MODIFIED *****", " files ("];
            is_count(line)
                || is_orphan_file(line)
                || beginnings.iter().any(|b| line.starts_with(b))
                || parts.iter().any(|p| line.contains(p))
        }
    }
}

/// The bytes of an image, and of its journal's device where there is one.
#[derive(Clone, Copy, Debug)]
pub struct Disks<'a> {
    image: &'a [u8],
    journal: Option<&'a [u8]>,
}

impl<'a> Disks<'a> {
    /// The image alone or both, in this order.
    pub fn of(disks: &'a [Vec<u8>]) -> Self {
        Self { image: &disks[0], journal: disks.get(1).map(Vec::as_slice) }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Disks<'a> {
    fn from(image: &'a T) -> Self {
        Self { image: image.as_ref(), journal: None }
    }
}

/// The bytes that e2fsck left of an image, and of its journal's device where there is one.
pub type Left = Vec<Vec<u8>>;

/// Copies of [`Disks`] as files, which are removed with it.
struct Files {
    _dir: tempfile::TempDir,
    image: PathBuf,
    journal: Option<PathBuf>,
}

impl Files {
    fn new(disks: Disks<'_>) -> Result<Self, ToolError> {
        let dir = scratch_dir()?;
        let (image, journal) = (dir.path().join("image"), disks.journal.map(|_| dir.path().join("journal")));
        write_sparse(&image, disks.image)?;
        if let (Some(path), Some(bytes)) = (&journal, disks.journal) {
            write_sparse(path, bytes)?;
        }
        Ok(Self { _dir: dir, image, journal })
    }

    fn e2fsck(&self, args: &[&str]) -> Result<Verdict, ToolError> {
        let mut all: Vec<&OsStr> = args.iter().map(|a| a.as_ref()).collect();
        if let Some(journal) = &self.journal {
            all.extend(["-j".as_ref(), journal.as_os_str()]);
        }
        all.push(self.image.as_os_str());
        let output = run("e2fsck", all)?;
        Ok(Verdict { code: output.status.code().unwrap_or(-1), output: text(&output) })
    }

    fn read(&self) -> Result<Left, ToolError> {
        [Some(&self.image), self.journal.as_ref()].into_iter().flatten().map(|path| Ok(read_sparse(path)?)).collect()
    }
}

/// Calls `f` with a copy of `image` as a file, which is removed then.
///
/// # Errors
/// The file cannot be written; or those of `f`.
pub fn on_copy<T>(image: &[u8], f: impl FnOnce(&Path) -> Result<T, ToolError>) -> Result<T, ToolError> {
    f(&Files::new(image.into())?.image)
}

/// `e2fsck -fn`: looks, changes nothing. For an image that was closed.
///
/// # Errors
/// e2fsck cannot be run.
pub fn check<'a>(disks: impl Into<Disks<'a>>) -> Result<Verdict, ToolError> {
    Files::new(disks.into())?.e2fsck(&["-fn"])
}

/// `e2fsck -fy` on a copy: replays, mends, and returns what it left.
///
/// # Errors
/// e2fsck cannot be run.
pub fn repair(image: &[u8]) -> Result<(Verdict, Vec<u8>), ToolError> {
    let (verdict, mut left) = by_e2fsck(image.into(), &["-fy"])?;
    Ok((verdict, left.swap_remove(0)))
}

/// `e2fsck -y -E journal_only` on a copy: replays and returns what it left.
///
/// # Errors
/// e2fsck cannot be run.
pub fn replay_only(image: &[u8]) -> Result<(Verdict, Vec<u8>), ToolError> {
    let (verdict, mut left) = by_e2fsck(image.into(), &["-y", "-E", "journal_only"])?;
    Ok((verdict, left.swap_remove(0)))
}

fn by_e2fsck(disks: Disks<'_>, args: &[&str]) -> Result<(Verdict, Left), ToolError> {
    let files = Files::new(disks)?;
    let verdict = files.e2fsck(args)?;
    Ok((verdict, files.read()?))
}

/// Whether the journal of an image is one that only Ondol can replay.
pub fn is_ours_alone(image: &[u8]) -> bool {
    incompat(image) & 0x4000_0000 != 0
}

/// `s_feature_incompat`.
fn incompat(image: &[u8]) -> u32 {
    image.get(1024 + 96..1024 + 100).map_or(0, |bytes| bytes.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b)))
}

/// Whether e2fsck has left values behind: it does not delete those of an orphan with it, as the kernel and we do, and
/// then complains of them.
fn left_values(image: &[u8], said: &str) -> bool {
    incompat(image) & 0x400 != 0 && said.contains("orphaned inode")
}

/// Whether all that e2fsck complains of is what it left itself: of an orphan with data in the inode it frees the inode,
/// and forgets the block of its attributes (1.47.0, also of images that only the kernel has written).
fn left_attributes(image: &[u8], said: &str) -> bool {
    let follows = ["e2fsck -fy ended with 1:", "Fix? yes", "Free blocks count wrong for group #"];
    let verdict = Verdict { code: 1, output: said.to_owned() };
    let mut complaints =
        verdict.unexpected().into_iter().filter(|line| !follows.iter().any(|beginning| line.starts_with(beginning)));
    incompat(image) & 0x8000 != 0
        && said.contains("orphaned inode")
        && complaints.next().is_some_and(frees_blocks)
        && complaints.next().is_none()
}

/// Whether it is the complaint that blocks are marked as used and are not: -N or -(N--M), each.
fn frees_blocks(line: &str) -> bool {
    let blocks = line.strip_prefix("Block bitmap differences:").unwrap_or_default();
    !blocks.is_empty() && blocks.split_whitespace().all(|block| block.starts_with('-'))
}

/// Whether the kernel could not read an orphan of an image that it has mounted, and said so in the superblock
/// (`s_first_error_func`). It deletes no values of attributes that are orphans, though it makes such orphans itself
/// (6.18: "unexpected EA_INODE flag").
pub fn kernel_left_orphan(left: &[u8]) -> bool {
    const FUNCTION: &[u8] = b"ext4_orphan_get\0";
    incompat(left) & 0x400 != 0 && left.get(1024 + 0x1A8..).is_some_and(|at| at.starts_with(FUNCTION))
}

/// What e2fsck does with an image, or an image and its journal's device, as a crash left it. One whose journal only
/// Ondol can replay it must refuse and leave as it is: then None. Of any other see [`judge_replay`]; None also where it
/// has no say.
///
/// # Errors
/// e2fsck cannot be run.
pub fn judge_left<'a>(disks: impl Into<Disks<'a>>) -> Result<Result<Option<Left>, String>, ToolError> {
    let disks = disks.into();
    if !is_ours_alone(disks.image) {
        return Ok(match judge_replay(disks)? {
            Err(what) if left_values(disks.image, &what) || left_attributes(disks.image, &what) => Ok(None),
            judged => judged.map(Some),
        });
    }
    let (verdict, after) = by_e2fsck(disks, &["-fy"])?;
    if verdict.code & 8 == 0 || after[0] != disks.image || after.get(1).map(Vec::as_slice) != disks.journal {
        return Ok(Err(format!("e2fsck does not refuse a journal that it cannot know: {}", verdict.output)));
    }
    Ok(Ok(None))
}

/// Judges an image as a crash left it, by e2fsck alone: after replay and orphans nothing may be left to mend. Returns
/// what e2fsck left, image and journal's device, or what it complained about.
///
/// # Errors
/// e2fsck cannot be run.
pub fn judge_replay<'a>(disks: impl Into<Disks<'a>>) -> Result<Result<Left, String>, ToolError> {
    let (verdict, after) = by_e2fsck(disks.into(), &["-fy"])?;
    let unexpected = verdict.unexpected();
    if verdict.code > 1 || !unexpected.is_empty() {
        return Ok(Err(format!("e2fsck -fy ended with {}:\n{}", verdict.code, verdict.output)));
    }
    let second = check(Disks::of(&after))?;
    if !second.is_clean() {
        return Ok(Err(format!("e2fsck -fn after -fy ended with {}:\n{}", second.code, second.output)));
    }
    Ok(Ok(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unexpected(output: &str) -> Vec<String> {
        let verdict = Verdict { code: 1, output: output.into() };
        verdict.unexpected().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn replay_and_stale_counts_are_no_complaints_and_everything_else_is() {
        let replayed = "e2fsck 1.47.0 (5-Feb-2023)\nimage: recovering journal\nClearing orphaned inode 13 (uid=0)\n\
            Pass 1: Checking inodes, blocks, and sizes\nFree blocks count wrong (2, counted=3).\nFix? yes\n\n\
            Orphan file (inode 12) block 0 is not clean.\nClear? yes\n\nimage: ***** FILE SYSTEM WAS MODIFIED *****\n\
            image: 12/256 files (8.3% non-contiguous), 1202/8192 blocks\n";
        assert_eq!(unexpected(replayed), [""; 0]);
        let mended = "Pass 1: Checking\nInode 13, i_size is 5, should be 1024.  Fix? yes\n\
                      Block bitmap differences: -5\nFix? yes\nFree blocks count wrong for group #0 (1, counted=2).\n\
                      Fix? yes\n";
        let complaints = unexpected(mended);
        assert_eq!(complaints.len(), 5, "{complaints:?}");
    }

    #[test]
    fn a_tree_that_e2fsck_has_cut_may_be_made_smaller_and_no_other() {
        let said = |inode: u32| {
            format!(
                "Truncating orphaned inode 13 (uid=0, gid=0, mode=0100644, size=100)\nPass 1: Checking\n\
                 Inode {inode} extent tree (at level 1) could be shorter.  Optimize? yes\n"
            )
        };
        assert_eq!(unexpected(&said(13)), [""; 0]);
        assert_eq!(unexpected(&said(1)).len(), 1);
        assert_eq!(unexpected(&said(13).replace("shorter", "mended")).len(), 1);
    }

    #[test]
    fn what_e2fsck_forgets_is_no_complaint_and_all_else_is() {
        let mut image = vec![0; 4096];
        let said = |line: &str| {
            format!(
                "e2fsck -fy ended with 1:\nimage: recovering journal\nClearing orphaned inode 13 (uid=0)\n\
                 Pass 5: Checking group summary information\n{line}\nFix? yes\n\n\
                 Free blocks count wrong for group #0 (1, counted=2).\nFix? yes\n\n\
                 image: ***** FILE SYSTEM WAS MODIFIED *****\n"
            )
        };
        let forgotten = said("Block bitmap differences:  -1105");
        assert!(!left_attributes(&image, &forgotten), "no inode holds data there");
        image[1024 + 97] = 0x80;
        assert!(left_attributes(&image, &forgotten));
        for line in [
            "Block bitmap differences:  +1105",
            "Block bitmap differences:  -1105 +7",
            "Inode bitmap differences:  -13",
            "Block bitmap differences:  -1105\nFix? yes\n\nInode 14, i_blocks is 2, should be 0.",
        ] {
            assert!(!left_attributes(&image, &said(line)), "{line}");
        }
        assert!(!left_attributes(&image, &forgotten.replace("orphaned", "lost")));
    }
}
