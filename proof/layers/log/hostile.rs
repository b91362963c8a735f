//! Pools with bytes that nobody wrote: what is found is what was committed, or it is said what is missing.

use ondol_faults::Defect;
use ondol_medium::{AreaKind, Nvm, Pool};
use ondol_nvm_log::{Contents, Log, LogError, OnDamage, Options};
use ondol_testkit::nvm_log::rig::{LINES, env, found, pool, record, start};
use proptest::prelude::*;

/// A pool whose log has four commits of some records, and then a record that is not committed.
fn scene() -> Vec<u8> {
    let pool = pool(LINES);
    let log = start(&pool, 0);
    let append = |n: u32, len: usize| {
        let bytes = record((1, n), len);
        log.promise(len as u64).unwrap().claim(len as u64).complete(&bytes).unwrap()
    };
    for n in 0..4 {
        append(2 * n, 20);
        log.commit(append(2 * n + 1, 60 + 40 * n as usize)).unwrap();
    }
    append(9, 30);
    drop(log);
    pool.nvm().to_bytes().unwrap()
}

fn area(bytes: &[u8]) -> std::ops::Range<usize> {
    let area = Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap().area(AreaKind::JOURNAL_LOG).unwrap();
    area.start as usize..(area.start + area.len) as usize
}

fn opened(bytes: &[u8]) -> Pool {
    Pool::open(Nvm::from_bytes(bytes).unwrap()).unwrap()
}

fn ids(commits: u32) -> Vec<(u8, u32)> {
    (0..2 * commits).map(|n| (1, n)).collect()
}

/// How an answer to damage counts.
#[derive(Debug, Default)]
struct Answers {
    refused: usize,
    right: usize,
    shorter: usize,
    other: Vec<String>,
}

impl Answers {
    fn judge(&mut self, pool: &Pool, what: &str) {
        match Contents::inspect(pool, OnDamage::Refuse) {
            Err(LogError::Damaged { damage, .. }) => {
                self.refused += 1;
                let rest = Contents::open(pool, &*env(), OnDamage::GoOn).unwrap();
                assert_eq!(rest.damage(), Some(&damage));
                assert_eq!(rest.commits().len() as u64 + 1, damage.commit, "{what}: what lies before it is there");
            }
            Err(LogError::Header { .. } | LogError::Tail { .. }) => self.refused += 1,
            Err(other) => self.other.push(format!("{what}: {other}")),
            Ok(None) => self.other.push(format!("{what}: no log")),
            Ok(Some(_)) => match found(pool) {
                Ok(ids_found) if ids_found == ids(4) => self.right += 1,
                // Nobody can tell whether the newest commit was ever there.
                Ok(ids_found) if ids_found == ids(3) => self.shorter += 1,
                other => self.other.push(format!("{what}: {other:?}")),
            },
        }
    }
}

/// Each bit of everything that the log wrote.
fn flipped(bytes: &[u8]) -> Answers {
    let mut answers = Answers::default();
    for at in area(bytes) {
        if bytes[at] == 0xa5 && at % 64 != 5 {
            continue;
        }
        let mut bad = bytes.to_vec();
        bad[at] ^= 1 << (at % 8);
        answers.judge(&opened(&bad), &format!("byte {at}"));
    }
    answers
}

#[test]
fn no_flipped_bit_is_believed() {
    let bytes = scene();
    assert_eq!(found(&opened(&bytes)), Ok(ids(4)));
    let answers = flipped(&bytes);
    assert!(answers.other.is_empty(), "{} {:?}", answers.other.len(), answers.other.first());
    println!("{} refused, {} right, {} shorter", answers.refused, answers.right, answers.shorter);
    // Of the newest commit each byte; more only where records are believed unread.
    assert!(answers.refused > 300 && answers.right > 100 && answers.shorter == 64, "{answers:?}");
}

#[test]
fn a_log_that_is_cut_short_in_silence_is_found_out() {
    let bytes = scene();
    let _planted = ondol_faults::set(Some(Defect::LogSilentDamage)).unwrap();
    let answers = flipped(&bytes);
    assert!(answers.other.len() > 100, "{answers:?}");
}

/// What lay behind the damage does not come back between what is appended since.
fn goes_on_after_damage() -> Result<(), String> {
    let mut bytes = scene();
    let second = Contents::inspect(&opened(&bytes), OnDamage::Refuse).unwrap().unwrap().commits()[1].position;
    let at = area(&bytes).start + 8192 + (second % LINES) as usize * 64;
    bytes[at + 20] ^= 1;
    let pool = opened(&bytes);
    let rest = Contents::open(&pool, &*env(), OnDamage::GoOn).unwrap();
    assert_eq!((rest.commits().len(), rest.damage().map(|d| (d.commit, d.newest))), (1, Some((2, 4))));
    let log = Log::start(rest, env(), &Options::default()).unwrap();
    let mut expected = Vec::new();
    for n in 0..3 {
        let id = (2, n);
        log.commit(log.promise(30).unwrap().claim(30).complete(&record(id, 30)).unwrap()).unwrap();
        expected.push(id);
        let found = found(&pool)?;
        if found != expected {
            return Err(format!("{found:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_log_goes_on_after_damage() {
    assert_eq!(goes_on_after_damage(), Ok(()));
    let _planted = ondol_faults::set(Some(Defect::LogRepeatedPositions)).unwrap();
    goes_on_after_damage().unwrap_err();
}

#[test]
fn lost_lines_are_named() {
    let bytes = scene();
    let mut answers = Answers::default();
    for at in area(&bytes).step_by(64) {
        let nvm = Nvm::from_bytes(&bytes).unwrap();
        nvm.poison().add_line(at as u64);
        answers.judge(&Pool::open(nvm).unwrap(), &format!("line {at}"));
    }
    assert!(answers.other.is_empty(), "{:?}", answers.other);
    assert!(answers.refused > 5 && answers.shorter == 1, "{answers:?}");
}

/// Both copies of the same thing.
#[test]
fn without_a_header_or_a_tail_it_is_refused() {
    let bytes = scene();
    let start = area(&bytes).start;
    for (at, is_header) in [(8, true), (2048 + 8, false)] {
        let mut bad = bytes.clone();
        bad[start + at] ^= 1;
        assert_eq!(found(&opened(&bad)), Ok(ids(4)), "one copy is enough");
        bad[start + 4096 + at] ^= 1;
        match Contents::open(&opened(&bad), &*env(), OnDamage::GoOn) {
            Err(LogError::Header { .. }) if is_header => {}
            Err(LogError::Tail { .. }) if !is_header => {}
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever lies there, there is an answer.
    #[test]
    fn any_bytes_are_answered(changes in proptest::collection::vec((0usize..(LINES as usize + 128) * 64, any::<u64>()),
            1..12)) {
        let mut bytes = scene();
        let area = area(&bytes);
        for (at, word) in changes {
            let at = (area.start + at).min(area.end - 8);
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        for on_damage in [OnDamage::Refuse, OnDamage::GoOn] {
            if let Ok(found) = Contents::open(&opened(&bytes), &*env(), on_damage) {
                for commit in found.commits() {
                    for position in &commit.records {
                        found.read(*position, &mut Vec::new()).unwrap();
                    }
                }
            }
        }
    }
}
