//! What engines stand on.

use crate::{Client, Config};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;

/// What an engine stands on.
pub struct Ground {
    /// Where home is.
    pub store: Arc<dyn BlockStore>,
    /// Bytes of a block of the volume.
    pub block_size: usize,
    /// The volume.
    pub client: Arc<dyn Client>,
    /// Clock and processors.
    pub env: Arc<dyn Env>,
    /// How it is set up.
    pub config: Config,
}
