//! The command lines of the program and of the helpers that it is under other names.

mod making;
mod mounting;
mod pools;

use crate::options::partition_number;
use crate::size;
use crate::tools::args as tools;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use ondol::{DataMode, JournalEngine};
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use making::Mkfs;
use mounting::MOUNT_OPTIONS;
pub(crate) use pools::{Export, Import, Pool, PoolCreate, PoolDump, PoolFlatten, PoolInfo, PoolMeasure};

/// Crash-consistent ext4 in user space.
#[derive(Debug, Parser)]
#[command(name = "ondol", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) verbosity: crate::log::Verbosity,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an ext4 file system
    ///
    /// An image file that is made has the mode that the umask leaves. It holds everybody's files: whoever may read it
    /// reads them all.
    Mkfs(Mkfs),
    /// Mount a volume on a directory
    Mount(Mount),
    /// Unmount; returns when the image is clean, or says where else the volume is mounted
    Umount(Umount),
    /// Make durable everything done before on a mounted volume
    Sync(Sync),
    // What it does, its arguments say.
    Exchange(crate::exchange::ExchangeArgs),
    // What it does, its arguments say.
    Check(Check),
    /// Replay the journal and leave the image clean; of a pool, bring home what `ondol run` left in it
    Recover(Recover),
    /// Show geometry, features, journal and counters
    Info(Info),
    // What it does, its arguments say.
    Top(crate::top::TopArgs),
    // What it does, its arguments say.
    Ls(tools::Ls),
    // What it does, its arguments say.
    Cat(tools::Cat),
    // What it does, its arguments say.
    Cp(tools::Cp),
    /// Measure against other file systems; a command of ondol-lab, which is started
    #[command(disable_help_flag = true)]
    Bench(Lab),
    /// Change how a clean image is journaled
    Tune(Tune),
    // What it does, its arguments say.
    Resize(crate::resize::ResizeArgs),
    // What it does, its arguments say.
    #[command(subcommand, hide = !ondol::HAS_BUCKETS)]
    Snapshot(crate::snapshot::SnapshotCommand),
    // What it does, its arguments say.
    #[command(hide = !ondol::HAS_BUCKETS)]
    Clone(crate::snapshot::CloneArgs),
    // What it does, its arguments say.
    #[command(hide = !ondol::HAS_BUCKETS)]
    Delete(crate::snapshot::DeleteArgs),
    // What it does, its arguments say.
    Export(Export),
    // What it does, its arguments say.
    Import(Import),
    /// Make and look at NVM pools
    #[command(subcommand)]
    Pool(Pool),
    /// Look for a crash that breaks the contract; a command of ondol-lab, which is started
    #[command(disable_help_flag = true)]
    Crash(Lab),
    // What it does, its arguments say.
    Run(crate::run::RunArgs),
    /// Print the completions for a shell
    Completions(Completions),
    /// Write the manual's pages into a directory
    Manual(Manual),
}

/// What another program is told.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    /// What ondol-lab says of it with --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Change how a clean image is journaled
///
/// The choice is kept in the image, where other ext4 programs do not trip over it, and taken by mounts that are not
/// told otherwise.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// Journal engine: classic, compressed, swap or remap (the last two in a pool)
    #[arg(long, value_name = "ENGINE")]
    pub(crate) journal: Option<JournalEngine>,
    /// Data mode: journal, ordered or writeback
    #[arg(long, value_name = "MODE")]
    pub(crate) data: Option<DataMode>,
    /// Size of the journal; a new one is made where there is room for it, and the old one's is free then
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) journal_size: Option<u64>,
    /// Image file, block device or nvm:POOL, not mounted and clean
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_long_help = MOUNT_OPTIONS)]
pub(crate) struct Mount {
    /// Make and format an image file, or a pool, of this size if there is none
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    pub(crate) create: Option<u64>,
    /// Mount options, separated by commas
    #[arg(short = 'o', long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
    /// The image is this partition of a disk or its image, as with -o partition=N
    #[arg(long, value_name = "N", value_parser = partition_number, conflicts_with = "create")]
    pub(crate) partition: Option<u32>,
    /// Stay in the foreground, with messages on standard error
    #[arg(short = 'f', long)]
    pub(crate) foreground: bool,
    /// Take a volume in object storage from whoever has it mounted: what was synced there is kept, and nothing is
    /// written from there any more
    #[arg(long, hide = !ondol::HAS_BUCKETS)]
    pub(crate) take_over: bool,
    /// Image file, block device, or nvm:POOL for the image in an NVM pool
    pub(crate) target: PathBuf,
    /// Where to mount it
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Cut off whoever uses it
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Take it out of sight now; it ends with its last user, and this command does not wait for that
    #[arg(short = 'l', long, conflicts_with = "force")]
    pub(crate) lazy: bool,
    /// Return when its server has ended, also while the volume is mounted elsewhere, as in a container
    #[arg(short = 'w', long, conflicts_with = "lazy")]
    pub(crate) wait: bool,
    /// Where the volume is mounted
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// A directory on the mounted volume
    pub(crate) dir: PathBuf,
}

/// Check a volume
///
/// The journal is replayed first, and everything is looked at; `fsck.ondol` trusts a volume that is marked as clean.
///
/// Exit code, as fsck's: 0 clean, 1 clean after the journal was replayed or a mark of earlier errors was taken away, 4
/// problems are left (e2fsck mends them), 8 it could not be checked, 16 wrong call.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Change nothing
    #[arg(short = 'n', long)]
    pub(crate) read_only: bool,
    /// Go by the copy of the superblock in this block; changes nothing
    #[arg(short = 'b', long, value_name = "BLOCK")]
    pub(crate) superblock: Option<u64>,
    /// Image file, block device, or nvm:POOL for the image in an NVM pool
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Where the journal, or the log of the NVM pool, is damaged, replay what is sound of it and give up the rest, so
    /// that e2fsck can mend the volume; of a pool of `ondol run`, give up what belongs to files that cannot be reached
    #[arg(long)]
    pub(crate) force: bool,
    /// The NVM pool that has the image's last changes
    #[arg(long, value_name = "POOL")]
    pub(crate) nvm: Option<PathBuf>,
    /// Give up what lies in the NVM pool and is not home; with --nvm, say what that is. e2fsck mends what is left
    #[arg(long, conflicts_with = "force")]
    pub(crate) discard_nvm: bool,
    /// Take a volume in object storage from whoever has it mounted, as with `ondol mount --take-over`, and close it
    #[arg(long, conflicts_with_all = ["force", "nvm", "discard_nvm"], hide = !ondol::HAS_BUCKETS)]
    pub(crate) take_over: bool,
    /// Image file, block device or nvm:POOL; or the pool of `ondol run`
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print counters too
    #[arg(long)]
    pub(crate) stats: bool,
    /// Image file, block device, nvm:POOL, or a directory on a mounted volume
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Where to put them, in man1 and man8; made if it is not there
    pub(crate) dir: PathBuf,
}

/// Mount a volume, as mount(8) calls its helpers
///
/// Under this name the program is what `mount -t ondol` and lines of fstab(5) run, as `mount.fuse.ondol` what `mount -t
/// fuse.ondol` runs. Words that only fstab and systemd care for (`nofail`, `_netdev`, `x-NAME`, `user` and their like)
/// are passed over. With `remount` among the options, the flags of a mounted volume are changed.
#[derive(Debug, Parser)]
#[command(name = "mount.ondol", version, max_term_width = 100, after_long_help = MOUNT_OPTIONS)]
pub(crate) struct MountHelper {
    /// Pass over unknown options
    #[arg(short = 's', long)]
    pub(crate) sloppy: bool,
    /// Do everything but the mount itself
    #[arg(short = 'f', long)]
    pub(crate) fake: bool,
    /// Taken and ignored: mount tables are the kernel's
    #[arg(short = 'n', long = "no-mtab")]
    _no_table: bool,
    /// Say what was mounted
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Mount in the namespace of this process number or file
    #[arg(short = 'N', long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<OsString>,
    /// Mount options, separated by commas
    #[arg(short = 'o', long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub(crate) options: Vec<String>,
    /// Taken and ignored: the type with which mount(8) found this helper
    #[arg(short = 't', long = "types", value_name = "TYPE")]
    _fs_type: Option<String>,
    /// Image file, block device, or nvm:POOL
    pub(crate) source: PathBuf,
    /// Where to mount it
    pub(crate) dir: PathBuf,
}

/// Unmount a volume, as umount(8) calls its helpers
///
/// Returns when the image is clean, for which umount(8) alone would not wait.
#[derive(Debug, Parser)]
#[command(name = "umount.ondol", version, max_term_width = 100)]
pub(crate) struct UmountHelper {
    /// Cut off whoever uses it
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Take it out of sight now; it ends with its last user
    #[arg(short = 'l', long)]
    pub(crate) lazy: bool,
    /// Taken and ignored: mount tables are the kernel's
    #[arg(short = 'n', long = "no-mtab")]
    _no_table: bool,
    /// If it is in use, make it read-only instead
    #[arg(short = 'r', long)]
    pub(crate) read_only: bool,
    /// Say what was unmounted
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Unmount in the namespace of this process number or file
    #[arg(short = 'N', long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<OsString>,
    /// Taken and ignored: the type with which umount(8) found this helper
    #[arg(short = 't', long = "types", value_name = "TYPE")]
    _fs_type: Option<String>,
    /// Where the volume is mounted
    pub(crate) dir: PathBuf,
}

/// Check a volume, as fsck(8) calls its checkers
///
/// The journal is replayed if need be. A volume that is marked as clean is then taken as clean; with -f, or if it is
/// marked as faulty, everything is looked at. Structures are not mended: e2fsck does that.
///
/// Exit code: 0 clean, 1 clean after something was corrected, 4 problems are left, 8 it could not be checked, 16 wrong
/// call.
#[derive(Debug, Parser)]
#[command(name = "fsck.ondol", version, disable_version_flag = true, max_term_width = 100)]
pub(crate) struct Fsck {
    /// Correct what needs no question, without asking
    #[arg(short = 'p', short_alias = 'a', long = "preen", conflicts_with_all = ["yes", "read_only"])]
    _preen: bool,
    /// Answer yes to all questions; none are asked
    #[arg(short = 'y', long, conflicts_with = "read_only")]
    yes: bool,
    /// Change nothing
    #[arg(short = 'n', long)]
    pub(crate) read_only: bool,
    /// Look at everything even if it is marked as clean
    #[arg(short = 'f', long)]
    pub(crate) force: bool,
    /// Go by the copy of the superblock in this block; changes nothing
    #[arg(short = 'b', long, value_name = "BLOCK")]
    pub(crate) superblock: Option<u64>,
    /// Taken and ignored, as by e2fsck
    #[arg(short = 'r', long = "interactive")]
    _interactive: bool,
    /// Taken and ignored: all that is found is said
    #[arg(short = 'v', long = "verbose")]
    _verbose: bool,
    /// Taken and ignored: progress is shown on a terminal
    #[arg(short = 'C', long = "progress", value_name = "DESCRIPTOR", allow_hyphen_values = true)]
    _progress: Option<String>,
    /// Print the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    _version: Option<bool>,
    /// Image file, block device, or nvm:POOL for the image in an NVM pool
    pub(crate) target: PathBuf,
}

/// Make an ext4 file system, as mkfs(8) calls its builders
#[derive(Debug, Parser)]
#[command(name = "mkfs.ondol", version, max_term_width = 100)]
pub(crate) struct MkfsHelper {
    #[command(flatten)]
    pub(crate) mkfs: Mkfs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn all() -> [clap::Command; 5] {
        [Arguments::command(), MountHelper::command(), UmountHelper::command(), Fsck::command(), MkfsHelper::command()]
    }

    #[test]
    fn the_definitions_agree_with_each_other() {
        all().into_iter().for_each(clap::Command::debug_assert);
    }

    /// What a command says of itself, and those below it; none is hidden that anybody is to call.
    fn help(command: &mut clap::Command) -> String {
        let is_whole = command.get_name() == "ondol";
        let own = command.render_long_help().to_string();
        let below: Vec<String> = command
            .get_subcommands_mut()
            .map(|below| {
                let lacks =
                    is_whole && matches!(below.get_name(), "snapshot" | "clone" | "delete") && !ondol::HAS_BUCKETS;
                assert_eq!(below.is_hide_set(), lacks, "{}", below.get_name());
                help(below)
            })
            .collect();
        own + &below.concat()
    }

    /// The same without what is hidden.
    fn offered(command: &mut clap::Command) -> String {
        let own = command.render_long_help().to_string();
        let below = command.get_subcommands_mut().filter(|below| !below.is_hide_set());
        own + &below.map(offered).collect::<String>()
    }

    /// Whoever writes scripts writes words.
    #[test]
    fn every_option_has_a_long_form() {
        fn look(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| argument.get_short().is_some()) {
                let (command, letter) = (command.get_name(), argument.get_short());
                assert!(argument.get_long().is_some(), "{command}: {letter:?} has no long form");
            }
            command.get_subcommands().for_each(look);
        }
        all().iter().for_each(look);
    }

    /// `a, b or c`.
    fn listed(engines: &[ondol::JournalEngine]) -> String {
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        let (last, others) = names.split_last().unwrap();
        format!("{} or {last}", others.join(", "))
    }

    #[test]
    fn help_speaks_of_what_there_is() {
        let commands: Vec<String> = Arguments::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        let known = |word: &str| commands.iter().any(|c| c == word) || matches!(word, "COMMAND" | "help");
        for mut command in all() {
            let text = help(&mut command);
            assert!(!text.contains("not built"), "{}", command.get_name());
            let said = offered(&mut command);
            assert!(ondol::HAS_BUCKETS || !said.contains("object storage"), "{said}");
            for said in text.split("`ondol ").skip(1) {
                let word = said.split([' ', '\n', '`']).next().unwrap_or_default();
                assert!(known(word), "{}: `ondol {word}`", command.get_name());
            }
            let lists = [listed(&ondol::JournalEngine::OF_IMAGES), listed(&ondol::JournalEngine::ALL)];
            for said in text.split("ournal engine").skip(1).filter_map(|said| said.split(": ").nth(1)) {
                let is_one_of_them = lists.iter().any(|list| said.starts_with(list.as_str()));
                assert!(is_one_of_them || !said.starts_with("classic"), "{}: {said}", command.get_name());
            }
        }
    }

    #[test]
    fn names_and_options_are_those_of_the_manual() {
        for line in [
            "mkfs --size 1G -L label -b 4096 -N 1000 -O ^has_journal -F x.img",
            "mount --create 1G -o ro,data=journal -o allow_other -f x.img /mnt",
            "umount /mnt",
            "umount --force /mnt",
            "umount -l /mnt",
            "mount --partition 2 --foreground --options ro disk.img /mnt",
            "mount -o offset=1M,sizelimit=64M disk.img /mnt",
            "ls --partition 2 disk.img",
            "sync /mnt",
            "check -n x.img",
            "recover x.img",
            "info --json --stats x.img",
            "top /mnt",
            "top --once --json --sort p99 --interval 0.5 4711",
            "top -b -n 3 x.img",
            "-v check x.img",
            "check -vv x.img",
            "--log-level warn,ondol_fuse=debug mount x.img /mnt",
            "mount -v -o log_level=debug,metrics=9464 x.img /mnt",
            "tune --journal classic --journal-size 64M x.img",
            "resize x.img 2G",
            "resize -M x.img",
            "mount --take-over -o lease=30,store_timeout=0 s3://bucket/prefix /mnt",
            "recover --take-over file:///srv/bucket",
            "snapshot create /mnt monday",
            "clone s3://bucket/prefix?snapshot=monday s3://bucket/other",
            "delete --yes s3://bucket/prefix",
            "mount -o durable=local,redo=/var/lib/log,lag=64M,lag_seconds=5,disk_cache=/var/cache/blocks \
             s3://bucket/prefix /mnt",
            "snapshot list --json gs://bucket/prefix",
            "snapshot delete az://container/prefix monday",
            "resize --print-minimum x.img",
            "pool create --size 1G /dev/dax0.0",
            "pool create --domain eadr -F /dev/dax0.0",
            "pool info --json /dev/dax0.0",
            "pool dump /dev/dax0.0",
            "pool flatten --json /dev/dax0.0",
            "mkfs --size 1G nvm:/dev/dax0.0",
            "export -F nvm:/dev/dax0.0 x.img",
            "import -F x.img nvm:/dev/dax0.0",
            "pool measure --nvm-model read=300ns,write=100ns,bandwidth=2G --domain eadr --json /dev/dax0.0",
            "run --buffer /dev/dax0.0 --size 1G --dir /a --dir /b -q -- sqlite3 -batch x.db",
            "run true --help",
            "ls -alhRrtS1i x.img / :/etc",
            "cat x.img /a - :/b",
            "cp -a x.img dir :/",
            "cp -R -o nvm=/pool x.img :/a -t /tmp -v",
            "mkfs --size 1G -d /srv -U random -m 0.5 -T news -i 8K -q x.img",
        ] {
            let words = std::iter::once("ondol").chain(line.split(' '));
            Arguments::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
}
