//! Replaces the configuration of a service, which lies in several files, in one transaction: after a crash at any
//! moment, and for every reader at any moment, there is the old configuration or the new one, and never a mixture.
//!
//! ```sh
//! cargo run -p ondol --example config_swap
//! ```

use ondol::{FormatOptions, Result, Volume};
use std::path::Path;

/// Two files of the configuration are replaced, and the one that the new version does not have any more is removed.
fn upgrade(volume: &Volume) -> Result<()> {
    volume.transaction(|tx| {
        tx.write("/etc/service/main.conf", b"version = 2\nworkers = 8\n");
        tx.write("/etc/service/routes.conf", b"/ -> pool\n");
        tx.remove_file("/etc/service/legacy.conf");
        Ok(())
    })
}

/// Makes a volume in `dir`, with a service's old configuration, and upgrades that.
///
/// # Errors
/// The image cannot be made or used.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let image = dir.join("service.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    let volume = Volume::open(&image)?;
    volume.create_dir_all("/etc/service")?;
    for name in ["main.conf", "routes.conf", "legacy.conf"] {
        volume.write(Path::new("/etc/service").join(name), b"version = 1\n")?;
    }

    upgrade(&volume)?;
    // From here on it also survives a crash.
    volume.sync()?;

    for entry in volume.read_dir("/etc/service")? {
        let entry = entry?;
        println!("{}:\n{}", entry.file_name().display(), volume.read_to_string(entry.path())?);
    }

    // There is no legacy.conf to remove now: nothing of a second upgrade is done.
    let refused = upgrade(&volume);
    println!("again: {}", refused.as_ref().map_or_else(ToString::to_string, |()| "done".into()));
    volume.close()
}

#[allow(dead_code)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    Ok(run(dir.path())?)
}
