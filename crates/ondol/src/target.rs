//! Where an image lies, by the name of its target alone: in an NVM pool, in object storage, or in a file or device.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const PREFIX: &[u8] = b"nvm:";
const SCHEMES: [&str; 4] = ["s3://", "gs://", "az://", "file://"];

/// The pool that a target of the form `nvm:POOL` names: its image lies in the pool itself, under a page table. A file
/// whose name begins so is `./nvm:…`.
pub fn pool_of(target: &Path) -> Option<&Path> {
    target.as_os_str().as_bytes().strip_prefix(PREFIX).map(|rest| Path::new(OsStr::from_bytes(rest)))
}

/// The target that names the image in a pool.
pub(crate) fn target_of(pool: &Path) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&[PREFIX, pool.as_os_str().as_bytes()].concat()))
}

/// Whether a target names a volume in object storage, well or badly: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
/// `az://CONTAINER/PREFIX` or `file:///DIR`. A file of such a name is `./s3:…`. Builds without the feature `object`
/// open none of them, and say so.
pub fn is_in_bucket(target: &Path) -> bool {
    SCHEMES.iter().any(|scheme| target.as_os_str().as_bytes().starts_with(scheme.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_a_pool_or_a_file() {
        assert_eq!(pool_of(Path::new("nvm:/dev/dax0.0")), Some(Path::new("/dev/dax0.0")));
        assert_eq!(target_of(Path::new("/dev/dax0.0")), Path::new("nvm:/dev/dax0.0"));
        for file in ["disk.img", "./nvm:x", "/nvm:x", "NVM:x", "nvm"] {
            assert_eq!(pool_of(Path::new(file)), None, "{file}");
        }
    }

    #[test]
    fn a_target_names_a_bucket_or_a_file() {
        for target in ["s3://b/p", "gs://b/p", "az://c/p", "file:///d", "file://d", "s3://"] {
            assert!(is_in_bucket(Path::new(target)), "{target}");
        }
        for file in ["./s3://b/p", "s3:/b", "S3://b/p", "/file:///d", "disk.img", "nvm:s3://b/p"] {
            assert!(!is_in_bucket(Path::new(file)), "{file}");
        }
    }
}
