//! NVM logs: some operations, then bytes that lie.

use crate::input::Input;
use ondol_env::sync::Arc;
use ondol_env::{Env, Fixed, Timestamp};
use ondol_format::csum::crc32c;
use ondol_medium::{AREAS_START, AreaKind, Nvm, Pool, PoolSpec};
use ondol_nvm_log::{Contents, Log, OnDamage, Options};

const LINES: usize = 128;
const LINE: usize = 64;
/// First byte of the ring in the pool.
const RING: usize = AREAS_START as usize + 8192;

fn env() -> Arc<dyn Env> {
    Arc::new(Fixed::new(Timestamp::default(), 1))
}

fn pool() -> Pool {
    let areas = vec![(AreaKind::JOURNAL_LOG, 8192 + (LINES * LINE) as u64)];
    let nvm = Nvm::volatile(AREAS_START + 8192 + (LINES * LINE) as u64).expect("memory");
    Pool::create(nvm, &PoolSpec { uuid: [9; 16], areas, ..PoolSpec::default() }).expect("an empty medium takes a pool")
}

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let pool = pool();
    let contents = Contents::open(&pool, &*env(), OnDamage::Refuse).expect("a new log");
    let log = Log::start(contents, env(), &Options { patience: 0 }).expect("a new log");
    let expected = work(&log, &mut input);
    drop(log);
    assert_eq!(all(&pool, OnDamage::Refuse).as_ref(), Some(&expected), "nothing hostile was done yet");
    let mut image = pool.nvm().to_bytes().expect("memory can be read");
    let word = input.u8();
    for _ in 0..word & 7 {
        let (at, n) = (AREAS_START as usize + input.below(8192 + LINES * LINE), usize::from(input.u8() % 24) + 1);
        let part = input.split(n.min(image.len() - at));
        image[at..at + part.len()].copy_from_slice(part);
    }
    if word & 16 != 0 {
        seal(&mut image);
    }
    let Ok(Ok(pool)) = Nvm::from_bytes(&image).map(Pool::open) else { return };
    if word & 64 != 0 {
        pool.nvm().poison().add_line((RING + input.below(LINES) * LINE) as u64);
    }
    drop(all(&pool, OnDamage::Refuse));
    drop(all(&pool, OnDamage::GoOn));
    // Whatever was found, a log that starts works, and has what it was given.
    let Ok(contents) = Contents::open(&pool, &*env(), OnDamage::GoOn) else { return };
    let Ok(log) = Log::start(contents, env(), &Options::default()) else { return };
    let Ok(promise) = log.promise(5) else { return };
    let position = promise.claim(5).complete(b"sound").expect("memory");
    log.commit(position).expect("memory");
    drop(log);
    let found = all(&pool, OnDamage::Refuse).expect("a log that was started");
    assert_eq!(found, [b"sound".to_vec()], "what was found before is given up");
}

/// Appends, commits and releases. What is committed and not released, then.
fn work(log: &Log, input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let (mut open, mut batches, mut last) = (Vec::new(), std::collections::VecDeque::new(), None);
    let commit = |last: &mut Option<u64>, open: &mut Vec<Vec<u8>>, batches: &mut std::collections::VecDeque<_>| {
        if let Some(position) = last.take() {
            log.commit(position).expect("memory");
            batches.push_back(std::mem::take(open));
        }
    };
    for _ in 0..input.u8() % 24 {
        match input.u8() {
            len @ 1..=200 => {
                let Ok(promise) = log.promise(len.into()) else { continue };
                let contents = vec![len; len.into()];
                last = Some(promise.claim(len.into()).complete(&contents).expect("memory"));
                open.push(contents);
            }
            201..=220 => {
                // Voided by the commit of another, and appended again.
                let (Ok(slow), Ok(promise)) = (log.promise(70), log.promise(9)) else { continue };
                let (slow, other) = (slow.claim(70), promise.claim(9));
                open.push(vec![3; 9]);
                last = Some(other.complete(&[3; 9]).expect("memory"));
                commit(&mut last, &mut open, &mut batches);
                last = Some(slow.complete(&[4; 70]).expect("memory"));
                open.push(vec![4; 70]);
            }
            221..=245 => commit(&mut last, &mut open, &mut batches),
            _ => {
                if let Some(batch) = log.first_batch() {
                    log.release(&[batch]).expect("memory");
                    batches.pop_front();
                }
            }
        }
    }
    batches.into_iter().flatten().collect()
}

/// The contents of all records; `None` when it is refused.
fn all(pool: &Pool, on_damage: OnDamage) -> Option<Vec<Vec<u8>>> {
    let found = Contents::inspect(pool, on_damage).ok()??;
    let records = found.commits().iter().flat_map(|commit| &commit.records);
    let contents = |at: &u64| {
        let mut record = Vec::new();
        let contents = found.read(*at, &mut record).expect("what is named is whole");
        record[contents].to_vec()
    };
    Some(records.map(contents).collect())
}

/// Makes the checksums of the headers, and of whatever begins as a record, right.
fn seal(image: &mut [u8]) {
    let start = AREAS_START as usize;
    let mut state = !0;
    for copy in [start + 4096, start] {
        let header = &mut image[copy..copy + LINE];
        header[12..16].fill(0);
        let sum = crc32c(!0, header);
        header[12..16].copy_from_slice(&sum.to_le_bytes());
        state = crc32c(!0, &header[16..32]);
    }
    let mut put = |at: usize, len: usize| {
        // Around the end of the ring.
        let bytes: Vec<u8> =
            (at..at + len).map(|i| if i < image.len() { image[i] } else { image[RING + i - image.len()] }).collect();
        image[at..at + 4].copy_from_slice(&crc32c(state, &bytes[4..]).to_le_bytes());
        u32::from_le_bytes(bytes[4..8].try_into().unwrap_or_default())
    };
    put(start + 2048, LINE);
    put(start + 4096 + 2048, LINE);
    for line in 0..LINES {
        let at = RING + line * LINE;
        let kind_and_len = put(at, LINE);
        let len = (kind_and_len >> 8) as usize;
        if kind_and_len & 0xff == 1 && (16..=LINES * LINE).contains(&len) {
            put(at, len);
        }
    }
}
