//! A crash at any write of the store leaves batches whole or not at all, in every data mode, also those of several
//! files and those that are exchanged.

use crate::file_util::{Random, fsck, ino_of, medium, mkfs, options, unmount};
use ondol_block::{BlockStore, RamStore};
use ondol_env::{Fixed, Timestamp};
use ondol_power::{PowerDomain, Sampling};
use ondol_stores::Recorder;
use ondol_testkit::over_image_engines;
use ondol_testkit::rig::Setup;
use ondol_volume::{Batch, DataMode, Ino, Volume};
use std::sync::Arc;

over_image_engines! {
    every_crash_leaves_a_prefix_of_the_batches,
}

/// Some states of each cut.
const SOME: Sampling = Sampling { all_of: 1, samples: 8, torn: 8, extremes: 6, one_of: 1, seed: 1 };

fn open(store: Arc<dyn BlockStore>, data: DataMode) -> (Arc<dyn ondol_journal::Engine>, Volume) {
    let env = Arc::new(Fixed::new(Timestamp { sec: 2_000_000_000, nsec: 0 }, 1));
    Setup::current().with_data(data).run(|| crate::file_util::open(store, env, options()))
}

/// What the two files hold.
fn states(vol: &Volume, inos: [Ino; 2]) -> [Vec<u8>; 2] {
    inos.map(|ino| {
        let mut buf = vec![0; vol.getattr(ino).unwrap().size as usize];
        assert_eq!(vol.files().read(ino, 0, &mut buf).unwrap(), buf.len());
        buf
    })
}

/// Batches of the first file, of both, and of more than the journal of one megabyte takes at once.
fn batches([one, other]: [Ino; 2]) -> Vec<Vec<Batch>> {
    let batch = |ino: Ino, seed: u64, parts: &[(u64, usize)], sizes: [Option<u64>; 2]| {
        let (mut batch, mut random) = (Batch::new(ino), Random(seed));
        sizes[0].into_iter().for_each(|size| batch.set_len(size));
        parts.iter().for_each(|(at, len)| batch.write(*at, &random.bytes(*len)).unwrap());
        sizes[1].into_iter().for_each(|size| batch.set_len(size));
        batch
    };
    vec![
        vec![batch(one, 1, &[(0, 4096), (9000, 100), (20_000, 9000)], [None; 2])],
        vec![batch(one, 2, &[(1000, 3000), (25_000, 8000)], [None; 2]), batch(other, 3, &[(0, 5000)], [None; 2])],
        vec![batch(one, 4, &[(100, 200)], [None, Some(11_111)]), batch(other, 5, &[(8192, 4096)], [Some(3000), None])],
        vec![batch(one, 6, &[(2048, 400_000), (500_000, 300_000)], [None; 2])],
        vec![batch(one, 7, &[(1000, 3000), (300_000, 350_000)], [Some(2500), None])],
        vec![batch(one, 8, &[(0, 4096)], [Some(0), Some(5000)]), batch(other, 9, &[(4096, 1)], [None; 2])],
    ]
}

fn every_crash_leaves_a_prefix_of_the_batches() {
    let base = mkfs("8M", &["-b", "1024", "-J", "size=1", "-N", "32"], 2);
    let inos = [ino_of(&base, "f0"), ino_of(&base, "f1")];
    for data in [DataMode::Journal, DataMode::Ordered, DataMode::Writeback] {
        let domain = PowerDomain::new();
        let store = Arc::new(Recorder::new(RamStore::from_bytes(base.clone()), 0, domain.clone()));
        let (engine, vol) = open(store, data);
        let mut all = vec![states(&vol, inos)];
        for (n, batches) in batches(inos).iter().enumerate() {
            vol.ranges().apply_batches(&batches.iter().collect::<Vec<_>>()).unwrap();
            all.push(states(&vol, inos));
            if n % 2 == 1 {
                vol.sync().unwrap();
                domain.mark(n as u64 + 1);
            }
        }
        engine.checkpoint_all().unwrap();
        let (mut crashes, mut seen) = (0, vec![false; all.len()]);
        SOME.each(&medium(&base), &domain.take(), |layers, durable| {
            crashes += 1;
            let store = Arc::new(RamStore::from_bytes(layers[0].to_bytes()));
            let (engine, vol) = open(store.clone(), data);
            vol.inode_ops().process_orphans().unwrap();
            let found = states(&vol, inos);
            let at = (durable as usize..all.len()).find(|n| all[*n] == found);
            seen[at.unwrap_or_else(|| panic!("crash {crashes}: no state from {durable} on"))] = true;
            if crashes % 14 == 0 {
                unmount(&*engine, &vol, store.clone());
                fsck(&store.to_bytes());
            }
        });
        assert!(crashes > 40 && seen[0] && seen[all.len() - 1], "{crashes} crashes: {seen:?}");
    }
}
