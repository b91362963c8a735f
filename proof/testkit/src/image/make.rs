//! Fresh images by mke2fs, the same bytes every time for the same arguments.

use super::tools::{self, ToolError, scratch_dir};
use ondol_skips::find;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What mke2fs is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Size in bytes.
    pub size: u64,
    /// Block size in bytes.
    pub block_size: u32,
    /// Size of the journal in MiB, or `None` for mke2fs's choice.
    pub journal_mib: Option<u32>,
    /// Further arguments, such as `-O ^metadata_csum`.
    pub args: Vec<String>,
}

impl Spec {
    /// A small volume for crash states: 8 MiB in blocks of 1 KiB, a journal of 1,024 blocks, 256 inodes.
    pub fn small() -> Self {
        Self::new(8 << 20, 1024).journal(1).with("-N 256")
    }

    /// A volume of `size` bytes with mke2fs's defaults.
    pub fn new(size: u64, block_size: u32) -> Self {
        Self { size, block_size, journal_mib: None, args: Vec::new() }
    }

    /// With a journal of `mib` MiB.
    #[must_use]
    pub fn journal(mut self, mib: u32) -> Self {
        self.journal_mib = Some(mib);
        self
    }

    /// With further arguments, separated by blanks.
    #[must_use]
    pub fn with(mut self, args: &str) -> Self {
        self.args.extend(args.split_whitespace().map(str::to_owned));
        self
    }

    /// Makes the image as a file, which must not exist.
    ///
    /// # Errors
    /// mke2fs is missing or refuses.
    pub fn make_file(&self, path: &Path) -> Result<(), ToolError> {
        std::fs::File::create_new(path)?.set_len(self.size)?;
        let start = |source| ToolError::Start { program: "mke2fs".into(), source };
        let program = find("mke2fs").ok_or_else(|| start(std::io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(program);
        command.args(["-q", "-F", "-t", "ext4", "-b", &self.block_size.to_string()]);
        command.args(["-U", "6f6e646f-6c00-4000-8000-000000000001"]);
        // Of several -E it heeds the last alone. In bytes this is `HASH_SEED`.
        let mut extended = "hash_seed=6f6e646f-6c20-6861-7368-20736565642e".to_owned();
        let mut words = self.args.iter();
        while let Some(word) = words.next() {
            match words.as_slice().first() {
                Some(more) if word == "-E" => {
                    extended = format!("{extended},{more}");
                    words.next();
                }
                _ => {
                    command.arg(word);
                }
            }
        }
        command.args(["-E", &extended]);
        if let Some(mib) = self.journal_mib {
            command.arg("-J").arg(format!("size={mib}"));
        }
        command.arg(path);
        command.stdin(Stdio::null()).env("LC_ALL", "C").env("E2FSPROGS_FAKE_TIME", "1600000000");
        let output = command.output().map_err(start)?;
        if output.status.success() {
            return Ok(());
        }
        let command = format!("mke2fs -b {} {}", self.block_size, self.args.join(" "));
        Err(ToolError::Failed { command, code: output.status.code(), output: tools::text(&output) })
    }

    /// Makes the image in memory.
    ///
    /// # Errors
    /// mke2fs is missing or refuses.
    pub fn make(&self) -> Result<Vec<u8>, ToolError> {
        let dir = scratch_dir()?;
        let path = dir.path().join("image");
        self.make_file(&path)?;
        Ok(super::read_sparse(&path)?)
    }
}

/// What debugfs answers to one request about an image file, opened read-only.
///
/// # Errors
/// debugfs is missing or fails.
pub fn debugfs(image: &Path, request: &str) -> Result<String, ToolError> {
    let output = tools::must("debugfs", &["-R".as_ref(), OsStr::new(request), image.as_os_str()])?;
    Ok(tools::text(&output))
}
