//! A store that lends pages, over any other: what is written into them is copied when a block gets one. So whoever cuts
//! the power takes a page table.

use crate::over::passed_on;
use ondol_block::{BlockStore, Caps, PageLender, Result};
use ondol_env::sync::{Arc, Mutex};
use ondol_medium::{AreaKind, Nvm, Pool};
use ondol_volume::Image;
use std::collections::BTreeSet;

/// A store over an image that lends pages of the volume's block size, which lie in an area of a pool.
pub(crate) struct Lending {
    inner: Arc<dyn BlockStore>,
    block: u32,
    nvm: Arc<Nvm>,
    start: u64,
    pages: Mutex<Pages>,
    most: u64,
}

#[derive(Default)]
struct Pages {
    free: Vec<u32>,
    lent: BTreeSet<u32>,
}

impl Lending {
    /// Over a store that holds an image, with the pages of the area `page-data` of `pool`.
    pub(crate) fn new(inner: Arc<dyn BlockStore>, pool: &Pool) -> Self {
        let block = Image::open(inner.clone()).expect("an image").superblock().block_size();
        let area = pool.area(AreaKind::PAGE_DATA).expect("pages");
        let most = area.len / u64::from(block);
        let free = (0..most as u32).rev().collect();
        let (nvm, start) = (pool.nvm().clone(), area.start);
        Self { inner, block, nvm, start, pages: Mutex::new(Pages { free, lent: BTreeSet::new() }), most }
    }
}

impl PageLender for Lending {
    fn page_bytes(&self) -> u32 {
        self.block
    }

    fn lent(&self) -> u64 {
        self.pages.lock().lent.len() as u64
    }

    fn most_lent(&self) -> u64 {
        self.most
    }

    fn lend(&self, count: u64) -> Result<Option<Vec<u32>>> {
        let mut pages = self.pages.lock();
        let Some(left) = pages.free.len().checked_sub(count as usize) else { return Ok(None) };
        let taken = pages.free.split_off(left);
        pages.lent.extend(&taken);
        Ok(Some(taken))
    }

    fn claim(&self, claimed: &[u32]) {
        let mut pages = self.pages.lock();
        pages.free.retain(|page| !claimed.contains(page));
        pages.lent.extend(claimed);
    }

    fn remap(&self, entries: &[(u64, u32)]) -> Result<()> {
        let size = u64::from(self.block);
        let mut bytes = vec![0; size as usize];
        for (block, page) in entries {
            assert!(self.pages.lock().lent.contains(page), "page {page} is not lent");
            self.nvm.read(self.start + u64::from(*page) * size, &mut bytes).expect("memory");
            self.inner.write(block * size, &bytes)?;
        }
        Ok(())
    }

    fn give(&self, given: &[u32]) {
        let mut pages = self.pages.lock();
        for page in given {
            if pages.lent.remove(page) {
                pages.free.push(*page);
            }
        }
    }
}

impl BlockStore for Lending {
    passed_on!();

    fn caps(&self) -> Caps {
        Caps { batch: None, ..self.inner.caps() }
    }

    fn lender(&self) -> Option<&dyn PageLender> {
        Some(self)
    }
}
