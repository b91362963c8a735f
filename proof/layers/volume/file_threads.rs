//! Several threads on files of their own and on one they share.

use crate::file_util::{Random, ino_of, mkfs, mount};
use ondol_testkit::over_engines;
use ondol_volume::{Fallocate, Ino};

over_engines! {
    threads_do_not_disturb_each_other,
}

fn threads_do_not_disturb_each_other() {
    for args in [["-b", "4096", "-J", "size=4"], ["-b", "1024", "-J", "size=4"]] {
        let bytes = mkfs("96M", &args, 5);
        let inos: Vec<Ino> = (0..5).map(|i| ino_of(&bytes, &format!("f{i}"))).collect();
        let (own, log) = (&inos[..4], inos[4]);
        let rig = mount(bytes);
        let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let rig = &rig;
            let work = |n: usize, ino: Ino| {
                move || {
                    let (mut random, mut model) = (Random(n as u64), Vec::new());
                    for step in 0..400u32 {
                        let (at, len) = (random.below(1 << 20) as usize, 1 + random.below(20_000) as usize);
                        let data = random.bytes(len);
                        match random.below(6) {
                            0..=2 => {
                                rig.vol.files().write(ino, at as u64, &data).unwrap();
                                model.resize(model.len().max(at + len), 0);
                                model[at..at + len].copy_from_slice(&data);
                            }
                            3 => {
                                rig.vol.files().truncate(ino, at as u64).unwrap();
                                model.resize(at, 0);
                            }
                            4 => {
                                rig.vol.files().fallocate(ino, Fallocate::PunchHole, at as u64, len as u64).unwrap();
                                let end = (at + len).min(model.len());
                                model[at.min(end)..end].fill(0);
                            }
                            _ => rig.vol.sync().unwrap(),
                        }
                        // A record of the shared file: whose, and which.
                        let record = [n as u32, step].map(u32::to_le_bytes).concat();
                        rig.vol.files().append(log, &record.repeat(40)).unwrap();
                        let mut seen = vec![0; model.len()];
                        rig.vol.files().read(ino, 0, &mut seen).unwrap();
                        assert!(seen == model, "thread {n}, step {step}");
                    }
                    model
                }
            };
            let threads: Vec<_> = own.iter().enumerate().map(|(n, ino)| scope.spawn(work(n, *ino))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let check_log = |bytes: &[u8]| {
            let mut next = [0u32; 4];
            assert_eq!(bytes.len(), 4 * 400 * 320);
            for record in bytes.chunks(320) {
                assert!(record.chunks(8).all(|r| r == &record[..8]), "appended records are mixed");
                let word = |i: usize| u32::from_le_bytes(record[i..i + 4].try_into().unwrap());
                assert_eq!(word(4), next[word(0) as usize]);
                next[word(0) as usize] += 1;
            }
        };
        check_log(&rig.read_all(log));
        let rig = mount(rig.unmount_checked());
        check_log(&rig.read_all(log));
        for (ino, model) in own.iter().zip(&models) {
            assert!(rig.read_all(*ino) == *model);
        }
    }
}
