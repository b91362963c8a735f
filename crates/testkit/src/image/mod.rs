//! Images: made by mke2fs, opened by our own code, judged by e2fsck and by the kernel.

mod fsck;
mod kernel;
mod make;
mod mounted;
mod tools;

pub use fsck::{Verdict, check, judge_replay, repair, replay_only, write_sparse};
pub use kernel::KernelMount;
pub use make::{Spec, debugfs};
pub use mounted::{MountOptions, Mounted, clock, recover};
pub use tools::{ToolError, missing, run, scratch_dir};
