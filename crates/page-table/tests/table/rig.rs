//! Tables whose runs are recorded, and every power cut of them judged.

use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_medium::{AreaKind, Domain, Nvm, Pool, PoolSpec};
use ondol_page_table::{PageTable, TableError, TableSpec, check};
use ondol_power::{Event, Layer, Medium, PowerDomain, Sampling};
use std::ops::Range;

pub(crate) const PAGE: usize = 4096;
/// Blocks of the tables here.
pub(crate) const BLOCKS: u64 = 6;
/// Pages of their data areas.
pub(crate) const PAGES: u64 = 12;

/// A pool with a table of [`BLOCKS`] blocks over whatever lay there before.
pub(crate) fn pool() -> Pool {
    let kinds = [AreaKind::PAGE_CONFIG, AreaKind::PAGE_MAP, AreaKind::PAGE_LOG, AreaKind::PAGE_DATA];
    let lens = [8192, 4096, 8192, PAGES * PAGE as u64];
    let areas = kinds.into_iter().zip(lens).collect();
    let spec = PoolSpec { uuid: [9; 16], areas, force: true, ..PoolSpec::default() };
    let nvm = Nvm::volatile(8192 + lens.iter().sum::<u64>()).unwrap();
    let mut junk = nvm.stored();
    (2..nvm.size() / 4096).for_each(|page| junk.store(page * 4096, &[0xa5; 4096]).unwrap());
    let _fenced = junk.write_back().fence().unwrap();
    let mut pool = Pool::create(nvm, &spec).unwrap();
    let reserve = Some(PAGES - BLOCKS);
    TableSpec { uuid: [8; 16], blocks: Some(BLOCKS), reserve }.make(&mut pool).unwrap();
    pool
}

pub(crate) fn opened(bytes: &[u8]) -> Pool {
    Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap()
}

/// A pool as it is after a crash.
pub(crate) fn recorded(state: &[u8], domain: Domain, power: Option<&Arc<PowerDomain>>) -> Pool {
    let nvm = Nvm::from_bytes(state).unwrap().with_domain(domain).unwrap();
    let nvm = match power {
        Some(power) => nvm.record(power.clone(), 0),
        None => nvm,
    };
    Pool::open(nvm).unwrap()
}

/// First byte of the data area.
const DATA: u64 = 8192 + 8192 + 4096 + 8192;

/// Fills a page as whoever knows the memory does, durably.
pub(crate) fn fill(table: &PageTable, page: u32, bytes: &[u8]) {
    let mut batch = table.nvm().stored();
    batch.copy(DATA + u64::from(page) * PAGE as u64, bytes).unwrap();
    let _fenced = batch.write_back().fence().unwrap();
}

/// Contents of one block.
pub(crate) type Block = Arc<[u8]>;

/// Contents of all blocks.
pub(crate) type Image = Vec<Block>;

pub(crate) fn read(table: &PageTable) -> Result<Image, String> {
    let mut bytes = vec![0; table.size() as usize];
    table.read(0, &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes.chunks(PAGE).map(Arc::from).collect())
}

/// What a state holds once it is attached. The invariants hold before, and reading alone sees the same.
pub(crate) fn found(state: &[u8], domain: Domain) -> Result<Image, String> {
    let pool = recorded(state, domain, None);
    let report = check(&pool).map_err(|e| e.to_string())?;
    if !report.problems.is_empty() {
        return Err(report.problems.join("; "));
    }
    read(&PageTable::attach(&pool).map_err(|e| e.to_string())?)
}

/// A page that says which write it is of.
pub(crate) fn page(tag: u8) -> Vec<u8> {
    (0..PAGE).map(|at| tag.wrapping_mul(31) ^ (at / 64) as u8 ^ (at % 7) as u8).collect()
}

/// Some lines of a page, changed.
pub(crate) fn changed(page: &[u8], tag: u8) -> Vec<u8> {
    let mut page = page.to_vec();
    [8..16, 700..711, 1024..1160, 4088..4096].into_iter().for_each(|bytes| page[bytes].fill(tag));
    page
}

/// What a caller can do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Writes so many whole blocks.
    Write(u64, u64),
    /// Writes bytes: first, how many.
    Part(u64, u64),
    /// Writes so many whole blocks in place, of which some lines differ from what was there.
    InPlace(u64, u64),
    Discard(u64, u64),
    Flush,
    Swap(u64, u64),
    Remap(u64),
    /// Borrows a page, fills it, gives it to the block, and borrows it no more.
    Lent(u64),
    /// Swaps the first two and the other two, and stores bytes twice into a block, overlapping, as a checkpoint does.
    Checkpoint([u64; 4], u64),
    Attach,
    Flatten,
}

impl Op {
    /// All of it is there after a crash, or nothing.
    fn is_atomic(self) -> bool {
        matches!(self, Self::Swap(..) | Self::Remap(_) | Self::Checkpoint(..))
    }

    /// Whether a crash may leave words of this block that are new beside some that are old.
    fn tears(self, block: usize) -> bool {
        matches!(self, Self::InPlace(first, count) if (first..first + count).contains(&(block as u64)))
    }

    fn is_durable(self) -> bool {
        self.is_atomic() || matches!(self, Self::Flush | Self::Flatten)
    }

    /// Does it to a model.
    pub(crate) fn model(self, image: &Image, tag: u8) -> Image {
        let mut image = image.clone();
        match self {
            Self::Write(block, count) => {
                (0..count).for_each(|n| image[(block + n) as usize] = page(tag + n as u8).into());
            }
            Self::Part(offset, len) => {
                let mut bytes: Vec<u8> = image.iter().flat_map(|block| block.iter().copied()).collect();
                bytes[offset as usize..(offset + len) as usize].fill(tag);
                image = bytes.chunks(PAGE).map(Arc::from).collect();
            }
            Self::InPlace(block, count) => {
                (block..block + count).for_each(|n| image[n as usize] = changed(&image[n as usize], tag).into());
            }
            Self::Discard(block, count) => {
                (block..block + count).for_each(|n| image[n as usize] = vec![0; PAGE].into());
            }
            Self::Swap(a, b) => image.swap(a as usize, b as usize),
            Self::Remap(block) | Self::Lent(block) => image[block as usize] = page(tag).into(),
            Self::Checkpoint([a, b, c, d], to) => {
                image.swap(a as usize, b as usize);
                image.swap(c as usize, d as usize);
                let mut bytes = image[to as usize].to_vec();
                bytes[1000..1100].fill(tag);
                bytes[1050..1200].fill(!tag);
                image[to as usize] = bytes.into();
            }
            Self::Flush | Self::Attach | Self::Flatten => {}
        }
        image
    }

    pub(crate) fn run(self, table: &PageTable, tag: u8) {
        const P: u64 = PAGE as u64;
        match self {
            Self::Write(block, count) => {
                let pages: Vec<u8> = (0..count).flat_map(|n| page(tag + n as u8)).collect();
                table.write(block * P, &pages).unwrap();
            }
            Self::Part(offset, len) => table.write(offset, &vec![tag; len as usize]).unwrap(),
            Self::InPlace(block, count) => {
                let now = read(table).unwrap();
                let new: Vec<_> = (block..block + count).map(|n| (n * P, changed(&now[n as usize], tag))).collect();
                let places: Vec<_> = new.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect();
                table.write_in_place(&places).unwrap();
            }
            Self::Discard(block, count) => assert!(table.discard(block * P, count * P).unwrap()),
            Self::Flush => table.flush().unwrap(),
            Self::Swap(a, b) => table.swap(a, b).unwrap(),
            Self::Remap(block) => {
                let fresh = table.fresh().unwrap();
                table.fill(&fresh, 0, &page(tag)).unwrap();
                table.remap(block, fresh).unwrap();
            }
            Self::Lent(block) => {
                let lender = table.lender().unwrap();
                let lend = |_| {
                    let pages = lender.lend(1).unwrap();
                    if pages.is_none() {
                        // What is late may keep all pages, and others who do the same have them.
                        table.flush().unwrap();
                        ondol_env::sync::thread::yield_now();
                    }
                    pages
                };
                let pages = (0..1000).find_map(lend).expect("a page to lend");
                fill(table, pages[0], &page(tag));
                lender.remap(&[(block, pages[0])]).unwrap();
                lender.give(&pages);
            }
            Self::Checkpoint([a, b, c, d], to) => {
                let mut transaction = table.transaction();
                transaction.swap(a, b);
                transaction.swap(c, d);
                transaction.store(to, 1000, &[tag; 100]);
                transaction.store(to, 1050, &[!tag; 150]);
                match transaction.commit() {
                    Ok(()) => {}
                    // As in the model: what is not there is given a page.
                    Err(TableError::Unmapped { .. }) => panic!("the scene stores into a block without a page"),
                    Err(e) => panic!("{e}"),
                }
            }
            Self::Attach | Self::Flatten => {}
        }
    }
}

/// Whether these blocks may be there when so many operations were done, and the next one was under way; `images` are
/// what each of them leaves.
pub(crate) fn allowed(
    ops: &[Op],
    images: &[Image],
    image: &Image,
    done: usize,
    blocks: Range<u64>,
) -> Result<(), String> {
    let next = ops.get(done).copied();
    let is_there = |then: &Image| blocks.clone().all(|block| then[block as usize] == image[block as usize]);
    if next.is_some_and(Op::is_atomic) && is_there(&images[done + 1]) {
        return Ok(());
    }
    let last = ops[..done].iter().rposition(|op| op.is_durable() || matches!(op, Op::Attach));
    let durable = last.map_or(0, |n| n + 1);
    let newest = if next.is_none_or(Op::is_atomic) { done } else { done + 1 };
    blocks.map(|block| block as usize).try_for_each(|block| seen(ops, images, &image[block], block, durable..newest))
}

/// Whether a block may be seen so, between what was there before the first of these operations and what is after the
/// last.
pub(crate) fn seen(
    ops: &[Op],
    images: &[Image],
    bytes: &[u8],
    block: usize,
    during: Range<usize>,
) -> Result<(), String> {
    let images_then = &images[during.start..=during.end];
    let tears = ops[during].iter().any(|op| op.tears(block));
    let is_word = |at: usize| images_then.iter().any(|then| then[block][at..at + 8] == bytes[at..at + 8]);
    let is_mixed = tears && (0..PAGE).step_by(8).all(is_word);
    if is_mixed || images_then.iter().any(|then| then[block][..] == *bytes) {
        return Ok(());
    }
    let which = images.iter().position(|then| then[block][..] == *bytes);
    Err(format!("block {block} is as it was after {which:?} of {ops:?}"))
}

/// A run that is over: its events, and what the image was after each operation.
pub(crate) struct Run {
    domain: Domain,
    pub(crate) base: Vec<u8>,
    pub(crate) events: Vec<Event>,
    ops: Vec<Op>,
    images: Vec<Image>,
}

#[derive(Debug, Default)]
pub(crate) struct Cuts {
    pub(crate) states: usize,
    pub(crate) wrong: Vec<String>,
}

/// Does `ops`.
pub(crate) fn run(domain: Domain, ops: &[Op]) -> Run {
    run_over(pool().nvm().to_bytes().unwrap(), domain, ops)
}

pub(crate) fn run_over(base: Vec<u8>, domain: Domain, ops: &[Op]) -> Run {
    let power = PowerDomain::new();
    let pool = recorded(&base, domain, Some(&power));
    let mut table = PageTable::attach(&pool).unwrap();
    let mut images = vec![read(&table).unwrap()];
    power.mark(0);
    for (n, op) in ops.iter().enumerate() {
        let tag = (n * 8 + 1) as u8;
        if matches!(op, Op::Attach) {
            // What was not flushed is gone, as if power had been cut with nothing on its way.
            drop(table);
            table = PageTable::attach(&pool).unwrap();
            images.push(read(&table).unwrap());
        } else {
            if matches!(op, Op::Flatten) {
                table.flatten().unwrap();
                assert_eq!(table.flatness().displaced, 0);
            }
            op.run(&table, tag);
            images.push(op.model(&images[n], tag));
        }
        power.mark(n as u64 + 1);
    }
    drop(table);
    Run { domain, base, events: power.take(), ops: ops.to_vec(), images }
}

/// Flattens what a crash has left: the image is the same, and every block in its own page.
fn flat(state: &[u8], domain: Domain, image: &Image) -> Result<(), String> {
    let pool = recorded(state, domain, None);
    let mut table = PageTable::attach(&pool).map_err(|e| e.to_string())?;
    let done = table.flatten().map_err(|e| format!("flattened: {e}"))?;
    let report = check(&pool).map_err(|e| e.to_string())?;
    if !report.problems.is_empty() || report.flatness.displaced != 0 || report.mapped != done.mapped {
        return Err(format!("flattened: {report:?}, {done:?}"));
    }
    drop(table);
    match found(&pool.nvm().to_bytes().map_err(|e| e.to_string())?, domain)? == *image {
        true => Ok(()),
        false => Err("flattened: another image".into()),
    }
}

impl Run {
    fn media(&self, base: &[u8]) -> Vec<Medium> {
        vec![Medium { base: Layer::new(base.to_vec()), kind: self.domain.crashes_as(), whole: None }]
    }

    /// Attaches to cuts everywhere, about so many; of one of `again` cuts the attaching, too, and goes on from there.
    pub(crate) fn explore(&self, sampling: Sampling, again: usize, about: u64) -> Cuts {
        let media = self.media(&self.base);
        let marks = |n: usize| matches!(self.events[n - 1], Event::Mark(_));
        let sampling = sampling.spread(&media, &self.events, marks, about);
        let (mut cuts, mut number) = (Cuts::default(), 0);
        cuts.states = sampling.each(&media, &self.events, |layers, mark| {
            number += 1;
            if let Err(wrong) = self.judge(&layers[0].to_bytes(), mark as usize, number % again == 0) {
                cuts.wrong.push(format!("after {mark} operations: {wrong}"));
            }
        });
        cuts
    }

    fn judge(&self, state: &[u8], done: usize, deep: bool) -> Result<(), String> {
        let image = found(state, self.domain)?;
        allowed(&self.ops, &self.images, &image, done, 0..BLOCKS)?;
        if deep {
            self.cut_again(state, &image)?;
            self.go_on(state, &image)?;
            flat(state, self.domain, &image)?;
        }
        Ok(())
    }

    /// Cuts of the attaching: each finds the same image.
    fn cut_again(&self, state: &[u8], image: &Image) -> Result<(), String> {
        let power = PowerDomain::new();
        drop(PageTable::attach(&recorded(state, self.domain, Some(&power))));
        let media = self.media(state);
        let mut wrong = Ok(());
        Sampling::default().at_most(24).each(&media, &power.take(), |layers, _| {
            match found(&layers[0].to_bytes(), self.domain) {
                Ok(now) if now == *image => {}
                Ok(_) => wrong = Err("an attaching that was cut changes the image".into()),
                Err(e) => wrong = Err(format!("an attaching that was cut: {e}")),
            }
        });
        wrong
    }

    /// A table that goes on after a crash keeps what is written since, and the rest as it was found.
    fn go_on(&self, state: &[u8], image: &Image) -> Result<(), String> {
        let pool = recorded(state, self.domain, None);
        let mut image = image.clone();
        for (n, ops) in [[Op::Write(1, 2), Op::Flush], [Op::Remap(3), Op::Swap(0, 5)]].into_iter().enumerate() {
            let table = PageTable::attach(&pool).map_err(|e| format!("gone on: {e}"))?;
            for op in ops {
                op.run(&table, 200 + n as u8 * 8);
                image = op.model(&image, 200 + n as u8 * 8);
            }
        }
        let now = found(&pool.nvm().to_bytes().unwrap(), self.domain).map_err(|e| format!("gone on: {e}"))?;
        if now == image { Ok(()) } else { Err("gone on: another image".into()) }
    }
}
