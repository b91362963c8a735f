//! An image mounted by the kernel's own ext4, for as long as a value lives.

use super::sparse::{read_sparse, write_sparse};
use super::tools::{ToolError, must, scratch_dir};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How often a busy mount is asked to go.
const TRIES: u32 = 250;

/// A loop mount of an image file. Dropping it unmounts.
#[derive(Debug)]
pub struct KernelMount {
    dir: TempDir,
    mounted: bool,
    image: PathBuf,
    options: String,
}

impl KernelMount {
    /// Why kernel mounts are not possible here, or `None` if they may be.
    pub fn unavailable() -> Option<&'static str> {
        if !rustix::process::geteuid().is_root() {
            return Some("needs root for a loop mount");
        }
        (!Path::new("/dev/loop-control").exists()).then_some("no loop devices here")
    }

    /// Mounts `image` with these comma-separated options besides `loop`.
    ///
    /// # Errors
    /// mount refuses: not root, no loop device, or an image that the kernel does not take.
    pub fn new(image: &Path, options: &str) -> Result<Self, ToolError> {
        let mut mount =
            Self { dir: scratch_dir()?, mounted: false, image: image.to_owned(), options: options.to_owned() };
        mount.mount()?;
        Ok(mount)
    }

    /// The mounted directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn mount(&mut self) -> Result<(), ToolError> {
        let options = if self.options.is_empty() { "loop".to_owned() } else { format!("loop,{}", self.options) };
        let args: [&OsStr; 6] = [
            "-t".as_ref(),
            "ext4".as_ref(),
            "-o".as_ref(),
            options.as_ref(),
            self.image.as_os_str(),
            self.dir.path().as_os_str(),
        ];
        must("mount", &args)?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts and mounts again.
    ///
    /// # Errors
    /// umount or mount refuses.
    pub fn remount(&mut self) -> Result<(), ToolError> {
        self.unmount()?;
        self.mount()
    }

    /// Unmounts.
    ///
    /// # Errors
    /// umount refuses.
    pub fn close(mut self) -> Result<(), ToolError> {
        self.unmount()
    }

    fn unmount(&mut self) -> Result<(), ToolError> {
        if self.mounted {
            // A child that another thread of this process is starting holds copies of all files until it runs its
            // program.
            for patience in (0..TRIES).rev() {
                match must("umount", &[self.dir.path().as_os_str()]) {
                    Ok(_) => break,
                    Err(ToolError::Failed { output, .. }) if patience > 0 && output.contains("busy") => {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    Err(e) => return Err(e),
                }
            }
            self.mounted = false;
        }
        Ok(())
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        // The directory can only be removed once nothing is mounted on it any more.
        if self.mounted && self.unmount().is_err() {
            let _ = must("umount", &["-l".as_ref(), self.dir.path().as_os_str()]);
        }
    }
}

/// The image after `act` has worked on it as the kernel's ext4 mounts it; `None`, noted as skipped, where that is not
/// possible.
///
/// # Panics
/// The image cannot be stored, read, or unmounted.
pub fn with_kernel(bytes: &[u8], act: impl FnOnce(&Path)) -> Option<Vec<u8>> {
    let dir = scratch_dir().expect("a scratch directory");
    let image = dir.path().join("image");
    write_sparse(&image, bytes).expect("an image file");
    match KernelMount::new(&image, "") {
        Ok(mount) => {
            act(mount.dir());
            mount.close().expect("umount");
            Some(read_sparse(&image).expect("the image"))
        }
        Err(e) => {
            ondol_skips::skip(format!("the kernel cannot mount here: {e}"));
            None
        }
    }
}
