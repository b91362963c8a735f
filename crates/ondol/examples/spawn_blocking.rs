//! A volume in an asynchronous program. Calls of a volume may wait for a disk, so they belong on the threads that the
//! runtime keeps for that: `spawn_blocking`. Files are owned and may go there and come back. The library itself needs
//! no runtime.
//!
//! ```sh
//! cargo run -p ondol --example spawn_blocking
//! ```

use ondol::{FormatOptions, Volume};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task;

/// Requests that are served at once.
const REQUESTS: usize = 20;

/// Runs a call that may wait, on a thread for such calls.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> ondol::Result<T> + Send + 'static) -> std::io::Result<T> {
    Ok(task::spawn_blocking(call).await.map_err(std::io::Error::other)??)
}

/// Stores what one client has sent. Durable when it is answered.
async fn serve(volume: Arc<Volume>, path: PathBuf, body: Vec<u8>) -> std::io::Result<u64> {
    let file = blocking(move || volume.create(path)).await?;
    // The file goes to a thread with what it is to hold, and comes back.
    let file = blocking(move || {
        file.write_all_at(&body, 0)?;
        file.sync_all()?;
        Ok(file)
    })
    .await?;
    Ok(file.metadata()?.len())
}

async fn serve_all(volume: Arc<Volume>) -> std::io::Result<u64> {
    let requests: Vec<_> = (0..REQUESTS)
        .map(|n| tokio::spawn(serve(volume.clone(), format!("/{n}").into(), vec![n as u8; 1000 * n])))
        .collect();
    let mut bytes = 0;
    for request in requests {
        bytes += request.await.map_err(std::io::Error::other)??;
    }
    Ok(bytes)
}

/// Makes a volume in `dir`, and serves some requests at once. Returns how many bytes they have stored.
///
/// # Errors
/// The image cannot be made or used.
pub(crate) fn run(dir: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let image = dir.join("service.img");
    Volume::format(&image, &FormatOptions::new().size(64 << 20))?;
    let volume = Arc::new(Volume::open(&image)?);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let bytes = runtime.block_on(serve_all(volume.clone()))?;
    // Closing waits, too. Here nothing else is to be done meanwhile.
    Arc::into_inner(volume).ok_or("somebody has the volume still")?.close()?;
    Ok(bytes)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    println!("{} bytes were stored", run(dir.path())?);
    Ok(())
}
