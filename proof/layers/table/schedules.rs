//! Readers, writers and swaps, in interleavings that a seed decides, and power cuts of those.

use crate::rig::{BLOCKS, PAGE, PAGES, found, page, pool, read, recorded};
use ondol_block::BlockStore;
use ondol_env::sync::{Arc, Mutex};
use ondol_faults::Defect;
use ondol_medium::Nvm;
use ondol_page_table::{PageTable, check};
use ondol_power::{Kind, Layer, Medium, PowerDomain, Sampling};
use ondol_schedule::{Schedule, Task};

const P: u64 = PAGE as u64;

/// Blocks 0 and 1 are swapped, 2 and 3 are written, all by others than who reads; what is read is a whole block that was there.
fn crowd(table: &Arc<PageTable>) -> Vec<Task> {
    let task = |work: fn(&PageTable)| -> Task {
        let table = table.clone();
        Box::new(move || work(&table))
    };
    vec![
        task(|table| (0..4).for_each(|_| table.swap(0, 1).unwrap())),
        task(|table| {
            for n in 0..4 {
                table.write(2 * P, &page(50 + n)).unwrap();
                if n == 2 {
                    table.flush().unwrap();
                }
            }
        }),
        task(|table| {
            for n in 0..3 {
                table.write(3 * P, &page(60 + n)).unwrap();
                // Beside the other writer's bytes, in the same page.
                table.write(4 * P + 100, &[n; 100]).unwrap();
            }
        }),
        task(|table| {
            for n in 0..3 {
                table.write(4 * P + 200, &[n; 100]).unwrap();
                table.discard(5 * P, P).unwrap();
                table.write(5 * P, &page(70)).unwrap();
            }
        }),
        task(|table| {
            for n in 0..6 {
                let block = n % 3;
                let mut bytes = vec![0; PAGE];
                table.read(block * P, &mut bytes).unwrap();
                let of = if block < 2 { 1..3 } else { 50..54 };
                let is_whole = of.chain([3]).any(|tag| bytes == page(tag));
                assert!(is_whole, "block {block} is torn, or another's");
            }
        }),
    ]
}

fn rig() -> Arc<PageTable> {
    let table = PageTable::attach(&pool()).unwrap();
    (0..3).for_each(|n| table.write(n * P, &page(n as u8 + 1)).unwrap());
    Arc::new(table)
}

#[test]
fn readers_writers_and_swaps_in_any_order() {
    let steps = Schedule::in_turn(0).run(crowd(&rig())).unwrap().steps;
    for number in 0..150 {
        let table = rig();
        if let Err(e) = Schedule::fitted(steps, number).run(crowd(&table)) {
            panic!("{e}");
        }
        let table = Arc::into_inner(table).expect("no task has it any more");
        table.flush().unwrap();
        let image = read(&table).unwrap();
        let expected = [page(1), page(2), page(53), page(62)];
        (0..4).for_each(|n| assert!(image[n][..] == expected[n][..], "block {n}"));
        let mut shared = vec![0; PAGE];
        shared[100..300].fill(2);
        assert!(image[4][..] == shared[..] && image[5][..] == page(70)[..]);
        assert_eq!(table.stats().free, PAGES - BLOCKS);
        let pool = ondol_medium::Pool::open(Nvm::from_bytes(&table.nvm().to_bytes().unwrap()).unwrap()).unwrap();
        assert_eq!(check(&pool).unwrap().problems, Vec::<String>::new());
        drop(table);
        assert!(read(&PageTable::attach(&pool).unwrap()).unwrap() == image);
    }
}

/// A table over a recorded medium, and what was said to be durable: block, and the how many-th write of it.
struct Recorded {
    table: PageTable,
    power: Arc<PowerDomain>,
    said: Mutex<Vec<(u64, u8)>>,
}

/// Writes of each block, and swaps.
const TIMES: u8 = 3;
/// Blocks that have a writer each; the two behind them are swapped.
const WRITTEN: u64 = 3;

impl Recorded {
    fn says(&self, block: u64, n: u8) {
        let mut said = self.said.lock();
        said.push((block, n));
        self.power.mark(said.len() as u64);
    }
}

fn contents(block: u64, n: u8) -> Vec<u8> {
    page(block as u8 * 20 + n)
}

fn recorded_crowd(rig: &Arc<Recorded>) -> Vec<Task> {
    let writer = |block: u64| -> Task {
        let rig = rig.clone();
        Box::new(move || {
            for n in 1..=TIMES {
                rig.table.write(block * P, &contents(block, n)).unwrap();
                rig.table.flush().unwrap();
                rig.says(block, n);
            }
        })
    };
    let swapper = rig.clone();
    let mut tasks: Vec<Task> = (0..WRITTEN).map(writer).collect();
    tasks.push(Box::new(move || {
        for n in 1..=TIMES {
            swapper.table.swap(WRITTEN, WRITTEN + 1).unwrap();
            swapper.says(WRITTEN, n);
        }
    }));
    tasks
}

/// A pool whose blocks are written once.
fn base() -> Vec<u8> {
    let pool = pool();
    let table = PageTable::attach(&pool).unwrap();
    (0..BLOCKS).for_each(|block| table.write(block * P, &contents(block, 0)).unwrap());
    table.flush().unwrap();
    pool.nvm().to_bytes().unwrap()
}

fn recorded_rig(base: &[u8]) -> Arc<Recorded> {
    let power = PowerDomain::new();
    let table = PageTable::attach(&recorded(base, Kind::Nvm, Some(&power))).unwrap();
    Arc::new(Recorded { table, power, said: Mutex::default() })
}

/// States, and wrong ones, of cuts of one interleaving.
fn cut(base: &[u8], schedule: Schedule) -> (usize, Vec<String>) {
    let rig = recorded_rig(base);
    if let Err(e) = schedule.run(recorded_crowd(&rig)) {
        panic!("{e}");
    }
    let rig = Arc::into_inner(rig).expect("no task has it any more");
    let (events, said) = (rig.power.take(), rig.said.into_inner());
    let media = [Medium { base: Layer::new(base.to_vec()), kind: Kind::Nvm, whole: None }];
    let mut wrong = Vec::new();
    let sampling = Sampling::default().at_most(4).spread(&media, &events, |_| false, 150);
    let states = sampling.each(&media, &events, |layers, mark| {
        let image = match found(&layers[0].to_bytes(), Kind::Nvm) {
            Ok(image) => image,
            Err(e) => return wrong.push(e),
        };
        for block in 0..WRITTEN + 2 {
            let of = block.min(WRITTEN);
            let durable =
                said[..mark as usize].iter().filter(|(said, _)| *said == of).map(|(_, n)| *n).max().unwrap_or(0);
            let is_right = |n: u8| match block < WRITTEN {
                true => image[block as usize][..] == contents(block, n)[..],
                // An even number of swaps is none.
                false => {
                    image[block as usize][..] == contents(WRITTEN + u64::from((block - WRITTEN) as u8 ^ (n % 2)), 0)[..]
                }
            };
            // The next write or swap may be there already.
            if !(durable..=(durable + 1).min(TIMES)).any(is_right) {
                wrong.push(format!("block {block} has lost what {durable} writes or swaps made"));
            }
        }
        if image[WRITTEN as usize] == image[WRITTEN as usize + 1] {
            wrong.push("of two blocks that were swapped one is there twice".into());
        }
    });
    (states, wrong)
}

#[test]
fn cuts_of_interleavings() {
    let count = std::env::var("TABLE_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let base = base();
    let steps = Schedule::in_turn(0).run(recorded_crowd(&recorded_rig(&base))).unwrap().steps;
    let mut sum = 0;
    for number in 0..count {
        let (states, wrong) = cut(&base, Schedule::fitted(steps, number));
        assert!(wrong.is_empty(), "interleaving {number}: {} of {states}: {}", wrong.len(), wrong[0]);
        sum += states;
    }
    println!("{sum} states");
    for defect in [Defect::TableEarlyReuse, Defect::TablePublishBeforeData, Defect::TableCommitBeforeChange] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let is_found = (0..10).any(|number| !cut(&base, Schedule::fitted(steps, number)).1.is_empty());
        assert!(is_found, "{defect}");
    }
}
