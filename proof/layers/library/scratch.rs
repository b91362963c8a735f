//! Memory out of the free space of a volume: whose it is when, and that nothing of it is left behind, with each engine.

use crate::in_nvm::{attached, made};
use ondol::{Fallocate, FormatOptions, Media, OpenOptions, Options, Scratch, Volume, check_media, recover_media};
use ondol_env::sync::Arc;
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_testkit::image;

const BLOCK: u64 = 4096;
const ENOSPC: i32 = 28;
const EOPNOTSUPP: i32 = 95;
const EROFS: i32 = 30;

/// Engines and data modes that a volume in a pool can have.
const MODES: [&str; 9] = [
    "journal=remap,data=journal",
    "journal=remap,data=ordered",
    "journal=remap,data=writeback",
    "journal=swap,data=journal",
    "journal=swap,data=ordered",
    "journal=classic,data=journal",
    "journal=classic,data=ordered",
    "journal=compressed,data=journal",
    "journal=compressed,data=ordered",
];

fn opened(media: &Media, options: &str) -> Volume {
    Volume::open_stepped(media, &Options::parse(options).unwrap(), image::clock(1)).unwrap()
}

fn available(volume: &Volume) -> u64 {
    volume.statfs().available * BLOCK
}

fn scribble(memory: &mut Scratch, salt: usize) {
    memory.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 11 + salt) as u8);
}

fn is_scribbled(memory: &Scratch, salt: usize) -> bool {
    memory.iter().enumerate().all(|(n, byte)| *byte == (n / 11 + salt) as u8)
}

/// Bytes that a file of the privileged can have.
fn free(volume: &Volume) -> u64 {
    volume.statfs().free * BLOCK
}

/// What the pages are used for.
fn pages(volume: &Volume) -> ondol::Pages {
    let pages = volume.state().pages().unwrap();
    assert!(pages.storage + pages.memory + pages.log + pages.held <= pages.total, "{pages:?}");
    assert_eq!(volume.info().unwrap().pages, Some(pages));
    pages
}

/// All bytes of a file that takes nearly all the space that there is; how many.
fn fill(volume: &Volume, path: &str) -> Option<u64> {
    // Extents and a directory's block.
    let len = free(volume).checked_sub(16 * BLOCK)?;
    volume.write(path, vec![0x5A; len as usize]).ok()?;
    Some(len)
}

#[test]
fn all_free_pages_move_from_files_to_memory_and_back() {
    for options in MODES {
        let (media, _) = attached(&made(), None);
        let volume = opened(&media, options);
        volume.write("/kept", vec![1; 50_000]).unwrap();
        volume.sync().unwrap();
        let (empty, at_first) = (available(&volume), pages(&volume).storage);
        for turn in 0..3 {
            let mut memory = volume.scratch(empty).unwrap();
            assert!(memory.len() as u64 == empty && memory.iter().all(|byte| *byte == 0), "{options}: not zeros");
            scribble(&mut memory, turn);
            let with_memory = pages(&volume);
            assert_eq!((with_memory.memory, with_memory.storage), (empty / BLOCK, at_first), "{options}");
            assert_eq!(available(&volume), 0);
            // Neither files nor more memory find anything; what is there can be written over, again and again.
            assert_eq!(volume.scratch(1).unwrap_err().errno(), ENOSPC, "{options}");
            let beyond = vec![2; free(&volume) as usize + 1];
            assert_eq!(volume.write("/new", beyond).unwrap_err().errno(), ENOSPC, "{options}");
            volume.remove_file("/new").unwrap();
            let file = OpenOptions::new().write(true).open(&volume, "/kept").unwrap();
            (0..20).for_each(|n| {
                file.write_all_at(&vec![n; 50_000], 0).unwrap();
                volume.sync().unwrap();
            });
            drop(file);
            while volume.checkpoint().unwrap() {}
            assert!(is_scribbled(&memory, turn), "{options}: somebody stored to memory");
            drop(memory);
            assert_eq!((available(&volume), pages(&volume).memory), (empty, 0), "{options}");
            let len = fill(&volume, "/big").unwrap();
            assert!(pages(&volume).storage >= at_first + len / BLOCK && len > empty / 10 * 9, "{options}");
            assert_eq!(volume.scratch(17 * BLOCK).unwrap_err().errno(), ENOSPC, "{options}");
            assert_eq!(volume.read("/big").unwrap().len() as u64, len);
            // What is removed is memory's at once.
            volume.remove_file("/big").unwrap();
        }
        assert_eq!(volume.scratch(empty).unwrap().len() as u64, empty, "{options}");
        assert_eq!(volume.read("/kept").unwrap(), vec![19; 50_000]);
        volume.close().unwrap();
        let report = check_media(&media).unwrap();
        assert!(report.is_clean(), "{options}: {:?}", report.problems);
    }
}

#[test]
fn what_was_set_aside_first_is_given_up_first_and_only_for_need() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let empty = available(&volume);
    let aside: Vec<_> = (0..4)
        .map(|n| {
            let mut memory = volume.scratch(empty / 5).unwrap();
            scribble(&mut memory, n);
            memory.set_aside()
        })
        .collect();
    let there = || aside.iter().map(|aside| aside.is_there()).collect::<Vec<_>>();
    volume.write("/a", vec![1; (empty / 10) as usize]).unwrap();
    assert_eq!(there(), [true; 4], "there was space");
    volume.write("/b", vec![1; (free(&volume) + empty / 20) as usize]).unwrap();
    assert_eq!(there(), [false, true, true, true], "for a file");
    volume.remove_file("/b").unwrap();
    let more = volume.scratch(available(&volume) + empty / 5 + empty / 20).unwrap();
    assert_eq!(there(), [false, false, false, true], "for memory");
    let mut aside = aside.into_iter();
    assert!(aside.next().unwrap().take_up().is_none());
    let last = aside.next_back().unwrap().take_up().unwrap();
    assert!(is_scribbled(&last, 3));
    // In somebody's hands it stays.
    assert_eq!(volume.write("/c", vec![1; (free(&volume) + 1) as usize]).unwrap_err().errno(), ENOSPC);
    assert!(is_scribbled(&last, 3));
    drop((more, last, aside));
    volume.close().unwrap();
}

#[test]
fn what_was_set_aside_stays_where_it_would_not_help() {
    let (media, _) = attached(&made(), None);
    let volume = opened(&media, "journal=remap");
    let empty = available(&volume);
    let mut memory = volume.scratch(empty / 2).unwrap();
    scribble(&mut memory, 1);
    let aside = memory.set_aside();
    for len in [u64::MAX, free(&volume) + empty] {
        assert_eq!(volume.scratch(len).unwrap_err().errno(), ENOSPC);
        let file = OpenOptions::new().write(true).create(true).open(&volume, "/a").unwrap();
        assert_eq!(file.fallocate(Fallocate::Allocate, 0, len.min(1 << 40)).unwrap_err().errno(), ENOSPC);
    }
    assert!(aside.is_there());
    // What is freed durably in a moment is waited for.
    volume.write("/b", vec![1; (empty / 4) as usize]).unwrap();
    volume.sync().unwrap();
    volume.remove_file("/b").unwrap();
    drop(volume.scratch(available(&volume)).unwrap());
    assert!(aside.is_there());
    // Space that is reserved for a file at once is one more need.
    let file = OpenOptions::new().write(true).create(true).open(&volume, "/c").unwrap();
    file.fallocate(Fallocate::Allocate, 0, free(&volume) + empty / 4).unwrap();
    assert!(!aside.is_there() && aside.take_up().is_none());
    drop(file);
    volume.close().unwrap();
}

/// Pages of removed files that are read in place, low and high, among pages that were discarded a moment ago.
#[test]
fn pages_that_are_busy_here_and_there_are_passed_over() {
    for options in MODES {
        let (media, _) = attached(&made(), None);
        let volume = opened(&media, options);
        let empty = available(&volume);
        // Small files all over the volume.
        let names: Vec<String> = (0..16).map(|n| format!("/{n}")).collect();
        for name in &names {
            volume.write(name, vec![7; (empty / 20) as usize]).unwrap();
        }
        volume.sync().unwrap();
        while volume.checkpoint().unwrap() {}
        let files = [0, 15].map(|n: usize| volume.open_file(&names[n]).unwrap());
        let views = files.each_ref().map(|file| file.view(..3 * BLOCK).unwrap());
        drop(files);
        names.iter().for_each(|name| volume.remove_file(name).unwrap());
        volume.sync().unwrap();
        let _ = volume.inodes().space().trim(0, u64::MAX, 0);
        let mut memory = volume.scratch(empty - 20 * BLOCK).unwrap_or_else(|e| panic!("{options}: {e}"));
        scribble(&mut memory, 2);
        let is_read = views.iter().all(|view| view.slices().flatten().all(|byte| *byte == 7));
        assert!(is_read && is_scribbled(&memory, 2), "{options}");
        drop((views, memory));
        volume.close().unwrap();
    }
}

#[test]
fn pages_that_are_read_in_place_are_not_given_as_memory() {
    for options in MODES {
        let (media, _) = attached(&made(), None);
        let volume = opened(&media, options);
        let empty = available(&volume);
        let bytes: Vec<u8> = (0..40 * BLOCK).map(|n| (n / 100) as u8).collect();
        volume.write("/a", &bytes).unwrap();
        volume.sync().unwrap();
        while volume.checkpoint().unwrap() {}
        let file = volume.open_file("/a").unwrap();
        let (view, map) = (file.view(..20 * BLOCK).unwrap(), file.map().unwrap());
        assert_eq!(view.copied(), 0);
        drop(file);
        volume.remove_file("/a").unwrap();
        volume.sync().unwrap();
        let mut memory = volume.scratch(empty - 60 * BLOCK).unwrap();
        scribble(&mut memory, 5);
        // It may find other pages, and never those.
        drop(volume.scratch(available(&volume)));
        assert!(view.to_vec() == bytes[..(20 * BLOCK) as usize] && map[..] == bytes[..], "{options}");
        assert!(is_scribbled(&memory, 5));
        drop((view, map, memory));
        assert_eq!(volume.scratch(empty).unwrap().len() as u64, empty, "{options}");
        volume.close().unwrap();
    }
}

#[test]
fn memory_is_refused_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let [image, pool] = ["image", "pool"].map(|name| dir.path().join(name));
    Volume::format(&image, &FormatOptions::new().size(8 << 20)).unwrap();
    let volume = Volume::open(&image).unwrap();
    let refused = volume.scratch(1).unwrap_err();
    assert!(refused.errno() == EOPNOTSUPP && refused.to_string().contains("NVM pool"), "{refused}");
    assert!(volume.state().pages().is_none() && volume.info().unwrap().pages.is_none());
    volume.close().unwrap();
    let target = format!("nvm:{}", pool.display());
    Volume::format(&target, &FormatOptions::new().size(8 << 20)).unwrap();
    let volume = Volume::open(&target).unwrap();
    assert!(volume.scratch(0).unwrap().is_empty());
    assert_eq!(volume.scratch(u64::MAX).unwrap_err().errno(), ENOSPC);
    volume.close().unwrap();
    let volume = Volume::open_with(&target, &Options::parse("ro").unwrap()).unwrap();
    assert_eq!(volume.scratch(1).unwrap_err().errno(), EROFS);
    volume.close().unwrap();
}

#[test]
fn power_cuts_of_remap_journal_leave_nothing_of_memory() {
    cut_beside_memory("journal=remap,data=journal");
}

#[test]
fn power_cuts_of_remap_ordered_leave_nothing_of_memory() {
    cut_beside_memory("journal=remap,data=ordered");
}

#[test]
fn power_cuts_of_swap_leave_nothing_of_memory() {
    cut_beside_memory("journal=swap,data=journal");
}

#[test]
fn power_cuts_of_classic_leave_nothing_of_memory() {
    cut_beside_memory("journal=classic,data=journal");
}

/// Files change while all the rest is memory, at first freshly removed pages among it: after a cut everything is as
/// without.
fn cut_beside_memory(options: &str) {
    let base = made();
    let power = PowerDomain::new();
    let (media, _) = attached(&base, Some(&power));
    let volume = opened(&media, options);
    let mut known = vec![];
    for byte in 1..5u8 {
        volume.write("/a", vec![byte; 70_000]).unwrap();
        volume.sync().unwrap();
        volume.write("/b", vec![byte; 30_000]).unwrap();
        volume.remove_file("/b").unwrap();
        let mut memory = volume.scratch(available(&volume) / 2).unwrap();
        scribble(&mut memory, 3);
        volume.sync().unwrap();
        known.push(byte);
        power.mark(known.len() as u64);
        let file = OpenOptions::new().write(true).open(&volume, "/a").unwrap();
        file.write_all_at(&[byte + 100; 5000], 10_000).unwrap();
        assert!(is_scribbled(&memory, 3), "{options}");
    }
    volume.close().unwrap();
    let events = power.take();
    let memory = [Medium { base: Layer::new(base.clone()), kind: Kind::Nvm, whole: None }];
    let mut wrong = Vec::new();
    let sampling = Sampling::default().at_most(4).spread(&memory, &events, |_| false, 450);
    let states = sampling.each(&memory, &events, |layers, synced| {
        let (media, _) = attached(&layers[0].to_bytes(), None);
        recover_media(&media).unwrap();
        let volume = opened(&media, "");
        let found = volume.read("/a").unwrap_or_default();
        let first = found.first().copied().unwrap_or_default();
        let free = available(&volume) / BLOCK;
        let pages = pages(&volume);
        volume.close().unwrap();
        let report = check_media(&media).unwrap();
        let is_there = synced == 0 || found.is_empty() || (found.len() <= 70_000 && u64::from(first) + 1 >= synced);
        // Nobody has memory after a cut, and what is not stored is free.
        if !report.is_clean() || !is_there || pages.memory > 0 || free + 40 > pages.total {
            wrong.push(format!("after {synced}: {first} {} bytes, {pages:?}, {:?}", found.len(), report.problems));
        }
    });
    assert!(wrong.is_empty(), "{options}: {} of {states}: {}", wrong.len(), wrong[0]);
    assert!(states > 40, "{options}: {states} states");
}

#[test]
fn threads_take_and_give_memory_beside_writers() {
    let (media, _) = attached(&made(), None);
    let volume = Arc::new(opened(&media, "journal=remap"));
    let empty = available(&volume);
    std::thread::scope(|scope| {
        for thread in 0..3usize {
            let volume = volume.clone();
            scope.spawn(move || {
                for turn in 0..60 {
                    if thread < 2 {
                        let Ok(mut memory) = volume.scratch((1 + turn as u64 % 9) * empty / 20) else { continue };
                        scribble(&mut memory, thread);
                        std::thread::yield_now();
                        assert!(is_scribbled(&memory, thread));
                    } else {
                        let bytes = vec![turn as u8; 10_000 + turn * 3000];
                        // There may be no space at the moment.
                        if volume.write("/w", &bytes).is_ok() {
                            volume.sync().unwrap();
                            assert_eq!(volume.read("/w").unwrap(), bytes);
                        }
                        volume.remove_file("/w").unwrap();
                    }
                }
            });
        }
    });
    assert_eq!((available(&volume), pages(&volume).memory), (empty, 0));
    Arc::into_inner(volume).unwrap().close().unwrap();
    assert!(check_media(&media).unwrap().is_clean());
}
