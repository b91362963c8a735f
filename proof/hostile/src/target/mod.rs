//! The targets: functions of bytes that must not panic.

mod images;
mod logs;
mod options;
mod pools;
mod program;
mod requests;
mod tables;

use crate::calls::Group;

/// What hostile bytes are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Opening, read-only, and reading everything, of a patched image or one that is all the input's own.
    Walk,
    /// Calls on names in patched directories.
    Names,
    /// Calls on contents of files whose maps are patched.
    Contents,
    /// Calls on extended attributes that are patched.
    Xattrs,
    /// Recovery of logs, patched or made up.
    Journal,
    /// Recovery of compressed journals that are made up.
    Units,
    /// Calls of any kind on an image that is patched anywhere.
    Any,
    /// Calls on a sound image, compared with the model; power fails; what is recovered must be sound.
    Crash,
    /// Headers and areas of NVM pools.
    Pool,
    /// NVM logs.
    Log,
    /// Mount options, sizes, features and paths.
    Words,
    /// FUSE requests.
    Requests,
    /// Page tables of images in NVM pools.
    Table,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Walk,
        Self::Names,
        Self::Contents,
        Self::Xattrs,
        Self::Journal,
        Self::Units,
        Self::Any,
        Self::Crash,
        Self::Pool,
        Self::Log,
        Self::Words,
        Self::Requests,
        Self::Table,
    ];

    /// Its name: of the fuzz target, and of the directory of its corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Walk => "walk",
            Self::Names => "names",
            Self::Contents => "contents",
            Self::Xattrs => "xattrs",
            Self::Journal => "journal",
            Self::Units => "units",
            Self::Any => "any",
            Self::Crash => "crash",
            Self::Pool => "pool",
            Self::Log => "log",
            Self::Words => "words",
            Self::Requests => "requests",
            Self::Table => "table",
        }
    }

    /// Gives it these bytes.
    ///
    /// # Panics
    /// When something happens that no input may bring about.
    pub fn run(self, bytes: &[u8]) {
        // The images of these calls are sound: a plan that does not hold is a defect there.
        let _deceived = (self != Self::Crash).then(ondol_volume::images_may_deceive);
        match self {
            Self::Walk => images::walk(bytes),
            Self::Names => images::calls(bytes, Group::Names),
            Self::Contents => images::calls(bytes, Group::Contents),
            Self::Xattrs => images::calls(bytes, Group::Xattrs),
            Self::Journal => images::journal(bytes),
            Self::Units => images::units(bytes),
            Self::Any => images::any(bytes),
            Self::Crash => program::run(bytes),
            Self::Pool => pools::run(bytes),
            Self::Log => logs::run(bytes),
            Self::Words => options::run(bytes),
            Self::Requests => requests::run(bytes),
            Self::Table => tables::run(bytes),
        }
    }
}
