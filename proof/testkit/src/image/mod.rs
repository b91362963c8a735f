//! Images: made by mke2fs, opened in a way that suits tests, judged by e2fsck and by the kernel.

mod foreign;
mod fsck;
mod kernel;
mod make;
mod opening;
mod sparse;
mod tools;

pub use foreign::foreign;
pub use fsck::{
    Disks, Left, Verdict, check, is_ours_alone, judge_left, judge_replay, kernel_left_orphan, on_copy, repair,
    replay_only,
};
pub use kernel::{KernelMount, with_kernel};
pub use make::{Spec, debugfs};
pub use opening::{clock, options};
pub use sparse::{read_sparse, write_sparse, write_store};
pub use tools::{ToolError, missing, run, scratch_dir};
