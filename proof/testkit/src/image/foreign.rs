//! A volume that other programs have written: forms which Ondol reads and never makes.

use super::make::{Spec, debugfs};
use super::tools::{self, ToolError, scratch_dir};
use std::fmt::Write as _;
use std::path::Path;

/// As mke2fs makes its volumes, so that equal calls make equal bytes.
const TIME: (&str, &str) = ("E2FSPROGS_FAKE_TIME", "1600000000");

/// The files `/a`, `/b` and `/d/b` share one block of attributes, and so does the directory `/d`; `/s` is a symbolic
/// link that has a block.
///
/// # Errors
/// mke2fs, debugfs or e2fsck is missing or refuses.
pub fn foreign(size: u64, block_size: u32, journal_mib: u32) -> Result<Vec<u8>, ToolError> {
    let dir = scratch_dir()?;
    let (image, long) = (dir.path().join("image"), dir.path().join("long"));
    // Attributes have no room in inodes of 128 bytes. The orphan file is short, so that slots are used again.
    let spec = Spec::new(size, block_size)
        .journal(journal_mib)
        .with("-N 128 -I 128 -O ^64bit,orphan_file -E orphan_file_size=1");
    spec.make_file(&image)?;
    std::fs::write(&long, (0..14 * block_size).map(|n| (n / 7) as u8).collect::<Vec<u8>>())?;
    let long = long.display();
    let made = format!(
        "write {long} /a\nwrite {long} /b\nmkdir /d\nwrite {long} /d/b\nsymlink /s {}\n\
         ea_set /a user.one 1111\nea_set /a user.two 22222222\n",
        "target/".repeat(12)
    );
    change(dir.path(), &image, &made)?;
    let told = debugfs(&image, "stat /a")?;
    let block = told.split("File ACL: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    let shared = ["/b", "/d", "/d/b"].iter().fold(String::new(), |mut lines, path| {
        let _written = writeln!(lines, "sif {path} file_acl {block}");
        lines
    });
    change(dir.path(), &image, &shared)?;
    // It counts who shares the block, and what each has.
    must("e2fsck", &["-fy"], &image, 1)?;
    Ok(super::read_sparse(&image)?)
}

/// Has debugfs do these requests.
fn change(dir: &Path, image: &Path, requests: &str) -> Result<(), ToolError> {
    let script = dir.join("requests");
    std::fs::write(&script, requests)?;
    must("debugfs", &["-w", "-f", &script.display().to_string()], image, 0)
}

fn must(program: &str, args: &[&str], image: &Path, code: i32) -> Result<(), ToolError> {
    let path = image.display().to_string();
    let output = tools::run_with(program, args.iter().chain([&path.as_str()]), &[TIME])?;
    if output.status.code() == Some(code) {
        return Ok(());
    }
    let (command, code) = (format!("{program} {}", args.join(" ")), output.status.code());
    Err(ToolError::Failed { command, code, output: tools::text(&output) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{check, missing};

    #[test]
    fn attributes_are_shared_and_equal_calls_make_equal_bytes() {
        if let Some(tool) = missing(&["mke2fs", "debugfs", "e2fsck"]) {
            eprintln!("foreign: skipped: {tool}");
            return;
        }
        for (size, block_size, journal) in [(4 << 20, 1024, 1), (12 << 20, 4096, 4)] {
            let made = foreign(size, block_size, journal).expect("a volume");
            assert!(made == foreign(size, block_size, journal).expect("another"), "{block_size}");
            assert!(check(&made).expect("e2fsck").is_clean());
            let dir = scratch_dir().expect("scratch");
            let path = dir.path().join("image");
            std::fs::write(&path, made).expect("write");
            for shares in ["/a", "/b", "/d", "/d/b"] {
                assert!(
                    debugfs(&path, &format!("ea_list {shares}")).expect("debugfs").contains("user.two"),
                    "{shares}"
                );
            }
            let target = debugfs(&path, "stat /s").expect("debugfs");
            assert!(target.contains("(0):"), "a block holds it: {target}");
        }
    }
}
