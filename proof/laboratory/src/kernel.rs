//! The kernel's own replay of a crash state, where it may be asked: as root, with loop devices.

use crate::image::Kind;
use ondol_power::Layer;
use ondol_testkit::image::{self, KernelMount, ToolError};
use std::sync::OnceLock;

/// What the kernel leaves of a crash state that it has mounted and unmounted. `None` where it cannot be asked, does not
/// know the format of the journal, or left an orphan that it cannot read.
///
/// # Errors
/// It refuses the image.
pub(crate) fn replay(crashed: &[Layer]) -> Result<Option<Vec<Layer>>, String> {
    static ASKED: OnceLock<bool> = OnceLock::new();
    // A journal's device would take a loop device of its own: e2fsck is asked about those.
    // Nor does it know pools.
    let [image] = crashed else { return Ok(None) };
    let bytes = image.to_bytes();
    if image::is_ours_alone(&bytes) || !*ASKED.get_or_init(may_be_asked) {
        return Ok(None);
    }
    match mounted(&bytes) {
        Ok(left) if image::kernel_left_orphan(&left) => Ok(None),
        Ok(left) => Ok(Some(vec![Layer::new(left)])),
        // Somebody else has taken the last loop device, or this one away.
        Err(ToolError::Failed { output, .. }) if output.contains("loop") => Ok(None),
        Err(e) => Err(format!("the kernel does not take it: {e}")),
    }
}

/// Whether it takes an image that nothing is wrong with.
fn may_be_asked() -> bool {
    let why = KernelMount::unavailable().map(str::to_owned).or_else(|| {
        let fresh = Kind::Small.make().ok()?;
        mounted(&fresh[0].to_bytes()).err().map(|e| e.to_string())
    });
    if let Some(why) = &why {
        eprintln!("ondol crash: the kernel is not asked to replay: {}", why.lines().next().unwrap_or_default());
    }
    why.is_none()
}

fn mounted(bytes: &[u8]) -> Result<Vec<u8>, ToolError> {
    image::on_copy(bytes, |path| {
        KernelMount::new(path, "noatime,noinit_itable")?.close()?;
        Ok(std::fs::read(path)?)
    })
}
