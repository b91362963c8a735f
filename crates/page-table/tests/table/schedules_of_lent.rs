//! Lent pages and views beside writes, swaps and flushes, in interleavings that a seed decides.

use crate::rig::{BLOCKS, PAGE, PAGES, fill, page, pool, read};
use ondol_block::{BlockStore, PageLender};
use ondol_env::sync::Arc;
use ondol_medium::Pool;
use ondol_page_table::{PageTable, Remapping, View, ViewSpec, check};
use ondol_schedule::{Schedule, Task};

const P: u64 = PAGE as u64;

/// Blocks 0 and 1 get lent pages from a thread each; 2 and 3 are swapped; 4 is written; 5 is discarded and written. A
/// view shows all of them.
struct Crowd {
    table: Arc<PageTable>,
    view: View<Arc<PageTable>>,
}

impl Crowd {
    fn new(remapping: Remapping) -> (Pool, Arc<Self>) {
        let pool = pool();
        let table = Arc::new(PageTable::attach(&pool).unwrap());
        (0..BLOCKS).for_each(|n| table.write(n * P, &page(n as u8 + 1)).unwrap());
        table.flush().unwrap();
        let spec = ViewSpec { blocks: 0..BLOCKS, remapping, ..ViewSpec::default() };
        let view = View::new(table.clone(), &spec).unwrap();
        (pool, Arc::new(Self { table, view }))
    }

    fn lender(&self) -> &dyn PageLender {
        self.table.lender().unwrap()
    }

    /// What engine `remap` does: borrow, fill, have the block mapped to it, flush, give back. Sometimes nothing comes
    /// of the page.
    fn borrow(&self, block: u64) {
        for n in 0..3 {
            let Some(pages) = self.lender().lend(1).unwrap() else { continue };
            fill(&self.table, pages[0], &page(tag(block, n)));
            if n != 1 {
                self.lender().remap(&[(block, pages[0])]).unwrap();
                self.table.flush().unwrap();
            }
            self.lender().give(&pages);
        }
    }

    fn look(&self) {
        for n in 0..8 {
            let block = n % BLOCKS;
            let mut bytes = vec![0; PAGE];
            match n % 2 {
                0 => self.table.read(block * P, &mut bytes).unwrap(),
                _ => self.view.read(block * P, &mut bytes).unwrap(),
            }
            let mut whole = match block {
                0 | 1 => vec![page(block as u8 + 1), page(tag(block, 0)), page(tag(block, 2))],
                2 | 3 => vec![page(3), page(4)],
                4 => (0..3).map(|n| page(tag(4, n))).chain([page(5)]).collect(),
                _ => vec![page(6), page(tag(5, 0)), page(tag(5, 1)), vec![0; PAGE]],
            };
            whole.retain(|whole| *whole == bytes);
            assert!(!whole.is_empty(), "block {block} is torn, or another's");
        }
    }
}

fn tag(block: u64, n: u8) -> u8 {
    100 + block as u8 * 10 + n
}

fn tasks(crowd: &Arc<Crowd>) -> Vec<Task> {
    let task = |work: fn(&Crowd)| -> Task {
        let crowd = crowd.clone();
        Box::new(move || work(&crowd))
    };
    vec![
        task(|crowd| crowd.borrow(0)),
        task(|crowd| crowd.borrow(1)),
        task(|crowd| (0..3).for_each(|_| crowd.table.swap(2, 3).unwrap())),
        task(|crowd| {
            for n in 0..3 {
                crowd.table.write(4 * P, &page(tag(4, n))).unwrap();
                crowd.view.refresh();
            }
        }),
        task(|crowd| {
            for n in 0..2 {
                crowd.table.discard(5 * P, P).unwrap();
                crowd.table.write(5 * P, &page(tag(5, n))).unwrap();
                crowd.table.flush().unwrap();
            }
        }),
        task(Crowd::look),
    ]
}

/// What is wrong after one interleaving, if anything.
fn run(remapping: Remapping, schedule: Schedule) -> Result<(), String> {
    let (pool, crowd) = Crowd::new(remapping);
    schedule.run(tasks(&crowd)).map_err(|e| e.to_string())?;
    let Crowd { table, view } = Arc::into_inner(crowd).expect("no task has it any more");
    table.flush().unwrap();
    let image = read(&table)?;
    let has = |n: usize, whole: &[u8]| image[n][..] == *whole;
    // Whoever found no page to borrow has left what was there.
    let borrowed = |block: u64| [page(block as u8 + 1), page(tag(block, 0)), page(tag(block, 2))];
    let expected = [page(4), page(3), page(tag(4, 2)), page(tag(5, 1))];
    let are_right = (0..2).all(|block| borrowed(block).iter().any(|whole| has(block as usize, whole)))
        && (2..).zip(&expected).all(|(n, whole)| has(n, whole));
    let mut shown = vec![0; BLOCKS as usize * PAGE];
    view.read(0, &mut shown).unwrap();
    let are_shown = shown.chunks(PAGE).enumerate().all(|(n, shown)| has(n, shown));
    drop(view);
    // No page is lost, and none is somebody's twice.
    let counts = (table.lender().unwrap().lent(), table.stats().free);
    let problems = check(&pool).map_err(|e| e.to_string())?.problems;
    drop(table);
    let is_durable = read(&PageTable::attach(&pool).map_err(|e| e.to_string())?)? == image;
    let all = (are_right, are_shown, counts, is_durable);
    match all == (true, true, (0, PAGES - BLOCKS), true) && problems.is_empty() {
        true => Ok(()),
        false => Err(format!("right, shown, counts, durable: {all:?}; {problems:?}")),
    }
}

#[test]
fn lent_pages_swaps_and_views_in_any_order() {
    for remapping in [Remapping::Transaction, Remapping::Immediate] {
        let steps = Schedule::in_turn(0).run(tasks(&Crowd::new(remapping).1)).unwrap().steps;
        for number in 0..200 {
            let found = run(remapping, Schedule::fitted(steps, number));
            assert_eq!(found, Ok(()), "interleaving {number}");
        }
    }
}
