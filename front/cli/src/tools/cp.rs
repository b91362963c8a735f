//! `ondol cp`: into an image, out of it, or within it.

pub(crate) mod copier;
mod host;
pub(crate) mod tree;

use super::args;
use super::inside::Inside;
use super::open::{For, Opened, inside};
use crate::failure::{FAILED, Failure, Outcome};
use copier::{Copier, How};
pub(crate) use host::Host;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tree::{Side, Tree};

/// Copies files.
pub(crate) fn cp(args: &args::Cp) -> Outcome {
    let (sources, target) = operands(args)?;
    let sources: Vec<Operand> = sources.iter().map(|path| Operand::of(path)).collect();
    let target = Operand::of(target);
    if !target.is_inside() && !sources.iter().all(Operand::is_inside) {
        let what = "a path in the image begins with a colon, as in :/etc/fstab, and of a source and a target one must \
                    be there";
        return Err(Failure::new(FAILED, what));
    }
    let what_for = if target.is_inside() { For::Writing } else { For::Reading };
    let how = How {
        recursive: args.recursive || args.archive,
        links_as_such: args.recursive || args.archive || args.no_dereference,
        preserve: args.preserve || args.archive,
        all: args.archive,
        force: args.force,
        no_clobber: args.no_clobber,
        umask: host::umask(),
    };
    let mut opened = Opened::new(&args.image, what_for)?;
    opened.mask(how.umask);
    // Each knows its way in the image.
    let (image, source, host) = (Inside::new(&opened), Inside::new(&opened), Host);
    let to: &dyn Tree = if target.is_inside() { &image } else { &host };
    let mut copier = Copier::new(to, how, args.verbose > 0);
    let into = Into { target: &target, is_dir: args.target_directory.is_some(), is_itself: args.no_target_directory };
    if sources.len() > 1 && !copier.is_directory(&target) {
        let shown = copier.to.shown(&target.path);
        opened.close()?;
        return Err(Failure::new(
            FAILED,
            format!("{shown}: it is no directory, into which several files could be copied"),
        ));
    }
    for operand in &sources {
        let from: &dyn Tree = if operand.is_inside() { &source } else { &host };
        copier.operand(from, operand, &into);
    }
    let (troubles, printed) = copier.end();
    opened.close()?;
    printed?;
    Ok(troubles.code())
}

/// Copies all that is in a directory into a new image, as `cp -a DIR/. :/` does.
pub(crate) fn fill(image: &Path, directory: &Path) -> Outcome {
    let image = args::Image { options: Vec::new(), partition: None, image: image.to_owned() };
    let opened = Opened::new(&image, For::Writing)?;
    let how = How { recursive: true, links_as_such: true, preserve: true, all: true, ..How::default() };
    let inside = Inside::new(&opened);
    let mut copier = Copier::new(&inside, how, false);
    copier.tree(&Host, directory.to_owned(), PathBuf::from("/"));
    let (troubles, _) = copier.end();
    opened.close()?;
    Ok(troubles.code())
}

/// The sources, and the target.
fn operands(args: &args::Cp) -> Result<(&[PathBuf], &Path), Failure> {
    match (&args.target_directory, args.paths.split_last()) {
        (Some(dir), _) => Ok((&args.paths, dir)),
        (None, Some((target, sources))) if !sources.is_empty() => {
            if args.no_target_directory && sources.len() > 1 {
                return Err(Failure::new(FAILED, "with -T there is one source"));
            }
            Ok((sources, target))
        }
        _ => Err(Failure::new(FAILED, "the target is missing (`ondol cp --help` says more)")),
    }
}

/// What is named on the command line.
pub(crate) struct Operand {
    /// Where it is; `None` for standard input or output.
    side: Option<Side>,
    pub(crate) path: PathBuf,
    /// It ends in a slash: a directory.
    pub(crate) is_dir: bool,
    /// It ends in `.` or is a root: what is in the directory is meant.
    pub(crate) is_contents: bool,
}

impl Operand {
    pub(crate) fn of(given: &Path) -> Self {
        let bytes = given.as_os_str().as_bytes();
        let (side, path) = match bytes {
            b"-" => (None, given.to_owned()),
            [b':', ..] => (Some(Side::Image), inside(given)),
            _ => (Some(Side::Host), given.to_owned()),
        };
        let last = bytes.rsplit(|b| *b == b'/').next().unwrap_or_default();
        let is_contents = matches!(last, b"." | b".." | b":.") || path.file_name().is_none();
        Self { side, path, is_dir: last.is_empty(), is_contents }
    }

    fn is_inside(&self) -> bool {
        self.side == Some(Side::Image)
    }

    /// Whether it is standard input or output.
    pub(crate) fn is_stream(&self) -> bool {
        self.side.is_none()
    }
}

/// Where a source goes.
pub(crate) struct Into<'a> {
    pub(crate) target: &'a Operand,
    /// The target is to be a directory, into which.
    pub(crate) is_dir: bool,
    /// The target is not to be taken for one.
    pub(crate) is_itself: bool,
}
