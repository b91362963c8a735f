//! Fast commits, which ext4 writes behind the log: replayed as one transaction.
//!
//! What they come to is found out in memory: the log is replayed there, then they are done with ordinary operations.
//! The blocks that differ afterwards become an ordinary transaction in the log, in the place of the fast commits, and
//! that is replayed as any other. So a crash finds either the fast commits or the transaction, whole. Zeros in parts of
//! inode tables that nobody reads before need no transaction: they go home at once, however many they are.

use crate::media::Media;
use crate::{Options, Result, settings};
use ondol_block::{BlockStore, OverlayStore};
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::jbd2::FastCommit;
use ondol_journal::jbd2::{self, Recovered};
use ondol_journal::{Engine, Ground, Journal, LogMap};
use ondol_volume::{DataMode, Image, Volume as Inodes};

/// Replays the log and `commits`, which follow it; the log is then to be replayed as any other.
pub(crate) fn replay(
    media: &Media,
    volume: jbd2::Volume,
    map: &LogMap,
    commits: &[FastCommit],
    env: Arc<dyn Env>,
) -> Result<Recovered> {
    let store = &media.store;
    let ahead = Arc::new(OverlayStore::new(store.clone()));
    perform(ahead.clone(), map, volume, commits, env.clone())?;
    let recovered = jbd2::recover_before_fast_commits(&**store, map, volume)?;
    let Differences { zeros, images } = differences(&ahead, store, map)?;
    let zero = vec![0; map.block_size()];
    zeros.iter().try_for_each(|block| store.write(block * zero.len() as u64, &zero))?;
    if !zeros.is_empty() {
        store.flush()?;
    }
    tracing::debug!("{}: fast commits: {}, blocks that they change: {}", store.name(), commits.len(), images.len());
    jbd2::append_fast_commits(store, map, env, images)?;
    Ok(recovered)
}

/// Does everything on `ahead`.
fn perform(
    ahead: Arc<OverlayStore>,
    map: &LogMap,
    volume: jbd2::Volume,
    commits: &[FastCommit],
    env: Arc<dyn Env>,
) -> Result<()> {
    let store: Arc<dyn BlockStore> = ahead;
    jbd2::recover(&*store, map, volume)?;
    let shared = Image::open(store.clone())?.shared()?;
    let options = Options::default();
    let config = settings::engine_config(&options, &*store, DataMode::Ordered);
    let (block_size, client) = (map.block_size(), shared.clone());
    let ground = Ground { store, block_size, client, env: env.clone(), config };
    let engine: Arc<dyn Engine> = Arc::from(ondol_journal::open(ground, Journal::Classic(map.clone()))?);
    let inodes = Inodes::new(shared, engine.clone(), env, settings::volume_options(&options, DataMode::Ordered, false));
    inodes.replay_fast_commits(commits)?;
    Ok(engine.checkpoint_all()?)
}

/// The blocks outside of the journal that two stores have otherwise.
#[derive(Default)]
struct Differences {
    /// Those that become zeros, and whose contents are of no matter before.
    zeros: Vec<u64>,
    /// All others, with what they become.
    images: Vec<(u64, Vec<u8>)>,
}

/// What `ahead` has otherwise than `store`, which has nothing in its log.
fn differences(ahead: &OverlayStore, store: &Arc<dyn BlockStore>, map: &LogMap) -> Result<Differences> {
    let size = map.block_size();
    let unwritten = Image::open(store.clone())?.unwritten_tables()?;
    let mut found = Differences::default();
    for (offset, len) in ahead.written() {
        let (mut new, mut old) = (vec![0; len], vec![0; len]);
        ahead.read(offset, &mut new)?;
        store.read(offset, &mut old)?;
        for (i, (new, old)) in new.chunks_exact(size).zip(old.chunks_exact(size)).enumerate() {
            let block = offset / size as u64 + i as u64;
            if new == old || map.contains(block) {
                continue;
            }
            let is_zeroed = new.iter().all(|&byte| byte == 0);
            if is_zeroed && unwritten.iter().any(|blocks| blocks.contains(&block)) {
                found.zeros.push(block);
            } else {
                found.images.push((block, new.to_vec()));
            }
        }
    }
    Ok(found)
}
