//! What a build has that opens no volumes in object storage: an error that says so.

use super::{BucketInfo, Shape, Snapshot, Terms};
use crate::{Error, Remedy, Result};
use ondol_block::{Access, BlockStore};
use ondol_env::sync::Arc;
use rustix::io::Errno;
use std::path::Path;

/// There is none.
pub(crate) enum Held {}

impl Held {
    pub(crate) fn close(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn snapshot(&self, _name: &str) -> Result<()> {
        match *self {}
    }

    pub(crate) fn warning(&self) -> Option<String> {
        match *self {}
    }

    pub(crate) fn is_local(&self) -> bool {
        match *self {}
    }

    pub(crate) fn weigh(&self, _info: &mut BucketInfo) {
        match *self {}
    }

    pub(crate) fn info(&self) -> BucketInfo {
        match *self {}
    }

    pub(crate) fn store(self: Arc<Self>) -> Arc<dyn BlockStore> {
        match *self {}
    }
}

/// The target may have a password in it, so it is not named.
pub(super) fn lacks() -> Error {
    let what = "this build opens no volumes in object storage: it was built without the feature `object`";
    Error::Bucket { what: what.into(), errno: Errno::OPNOTSUPP.raw_os_error(), remedy: Some(Remedy::OtherBuild) }
}

pub(super) fn check(_target: &Path) -> Result<()> {
    Err(lacks())
}

pub(crate) fn open_held(_target: &Path, _access: Access, _terms: &Terms) -> Result<Arc<Held>> {
    Err(lacks())
}

pub(super) fn make<T>(
    _target: &Path,
    _shape: Shape,
    _ready: &dyn Fn(u64) -> Result<T>,
    _no_size: &dyn Fn() -> Error,
    _fill: impl FnOnce(T, &dyn BlockStore) -> Result<()>,
) -> Result<()> {
    Err(lacks())
}

pub(super) fn list(_target: &Path) -> Result<Vec<Snapshot>> {
    Err(lacks())
}

pub(super) fn delete(_target: &Path, _name: &str) -> Result<()> {
    Err(lacks())
}

pub(super) fn copy(_from: &Path, _to: &Path) -> Result<()> {
    Err(lacks())
}

pub(super) fn destroy(_target: &Path) -> Result<()> {
    Err(lacks())
}
