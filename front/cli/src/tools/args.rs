//! The command lines of the commands that work on files of an image.

use crate::options::partition_number;
use clap::Args;
use std::path::PathBuf;

/// The image that a command works on.
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// Mount options for opening the image, separated by commas, as in offset=1M, nvm=POOL or journal_path=DEVICE
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
    /// The image is this partition of a disk or its image, by GPT or MBR; logical ones count from 5
    #[arg(long, value_name = "N", value_parser = partition_number)]
    pub(crate) partition: Option<u32>,
    /// Image file, block device or nvm:POOL, not mounted
    pub(crate) image: PathBuf,
}

/// List files of an image that is not mounted
///
/// Paths begin at the root of the image. Names come in the order of their bytes, owners as numbers, times in UTC. What
/// a terminal might obey in a name is escaped. The image is not written; one that was not unmounted cleanly is shown as
/// it is after recovery.
///
/// Exit code, as that of ls(1): 0, 1 something below a path could not be read, 2 a path could not, or wrong call.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Ls {
    /// Show names that begin with a dot, too, and . and ..
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// Show names that begin with a dot, too
    #[arg(short = 'A', long)]
    pub(crate) almost_all: bool,
    /// Show directories themselves, not what is in them
    #[arg(short = 'd', long)]
    pub(crate) directory: bool,
    /// Show sizes as 1.5K, 20M, 3.0G
    #[arg(short = 'h', long)]
    pub(crate) human_readable: bool,
    /// Show inode numbers
    #[arg(short = 'i', long)]
    pub(crate) inode: bool,
    /// One line each with type and mode, names, owner, group, size (or device number), and last change
    #[arg(short = 'l', long)]
    pub(crate) long: bool,
    /// The other way round
    #[arg(short = 'r', long)]
    pub(crate) reverse: bool,
    /// Show what is below directories, too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// The largest first
    #[arg(short = 'S', long)]
    pub(crate) size: bool,
    /// The newest first
    #[arg(short = 't', long)]
    pub(crate) time: bool,
    /// One name a line, which is how names always come
    #[arg(short = '1', long)]
    _one: bool,
    /// Names as they are, nothing escaped, each ended by a zero byte
    #[arg(short = '0', long, conflicts_with_all = ["long", "inode", "recursive"])]
    pub(crate) zero: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    _help: Option<bool>,
    #[command(flatten)]
    pub(crate) image: Image,
    /// What to list [default: the root directory]
    pub(crate) paths: Vec<PathBuf>,
}

/// Write files of an image that is not mounted to standard output
///
/// The image is not written; one that was not unmounted cleanly is read as it is after recovery.
///
/// Exit code, as that of cat(1): 0, 1 if anything failed or for a wrong call.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    #[command(flatten)]
    pub(crate) image: Image,
    /// Files in the image; - for standard input
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Copy files into an image that is not mounted, out of it, or within it
///
/// A path in the image begins with a colon, as in :/etc/fstab; everything else is a path of this machine. A source or a
/// target - means standard input or output. Without -a or -p new files belong to the caller, and have the mode of their
/// source without setuid, setgid and what the umask takes.
///
/// Exit code, as that of cp(1): 0, 1 if anything failed or for a wrong call. After an error the other sources are
/// copied.
#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// Copy directories with all that is below them; symbolic links and special files stay what they are
    #[arg(short = 'r', short_alias = 'R', long)]
    pub(crate) recursive: bool,
    /// As -r -p, with extended attributes, ACLs and hard links, too
    #[arg(short = 'a', long)]
    pub(crate) archive: bool,
    /// Preserve mode, owner, group and times
    #[arg(short = 'p', long)]
    pub(crate) preserve: bool,
    /// Copy symbolic links as such, also those that are named
    #[arg(short = 'P', short_alias = 'd', long)]
    pub(crate) no_dereference: bool,
    /// Where a target cannot be opened, remove it and try again
    #[arg(short = 'f', long, conflicts_with = "no_clobber")]
    pub(crate) force: bool,
    /// Leave what is there as it is
    #[arg(short = 'n', long)]
    pub(crate) no_clobber: bool,
    /// The directory to copy into; all other paths are sources
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    pub(crate) target_directory: Option<PathBuf>,
    /// The last path is the target itself, also where there is a directory of that name
    #[arg(short = 'T', long)]
    pub(crate) no_target_directory: bool,
    /// Say what is copied
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) image: Image,
    /// Sources, and the target as the last
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
}
