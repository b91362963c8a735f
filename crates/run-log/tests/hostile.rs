//! Pools that something has happened to: recovery and drain answer, they do not panic, hang or invent bytes.
#![forbid(unsafe_code)]

use ondol_medium::{Nvm, Pool, PoolSpec};
use ondol_run_log::{Call, Client, Drain, FileKind, Handle, Identity, Log, LogOptions, Look, Place, WriteCall, found};
use std::cell::Cell;

/// A file that is nothing but its size and times.
struct Write<'t> {
    ticks: &'t Cell<u64>,
    size: &'t Cell<u64>,
    bytes: &'t [u8],
}

impl Call for Write<'_> {
    type Fail = ();

    fn look(&self) -> Result<Look, ()> {
        let now = self.ticks.get();
        Ok(Look {
            dev: 1,
            ino: 2,
            birth: 3,
            ctime: now,
            mtime: now,
            size: self.size.get(),
            kind: FileKind::File,
            set_id: false,
        })
    }

    fn now_ns(&self) -> u64 {
        self.ticks.get()
    }

    fn settle(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), ()> {
        Ok(())
    }

    fn refused(&self) {}

    fn refuses_sync(&self, (): &()) -> bool {
        false
    }

    fn identity(&self) -> Option<Identity> {
        // Of a file that is nowhere.
        Some(Identity {
            fsid: 1,
            ino: 2,
            kind: FileKind::File,
            handle: Handle { kind: 1, bytes: vec![1; 8] },
            path: "/no/such/file".into(),
        })
    }
}

impl WriteCall for Write<'_> {
    fn refuses_write(&self, (): &()) -> bool {
        false
    }

    fn write(&self) -> Result<usize, ()> {
        self.ticks.set(self.ticks.get() + 1);
        self.size.set(self.size.get() + self.bytes.len() as u64);
        Ok(self.bytes.len())
    }

    fn place(&self) -> Option<Place> {
        Some(Place::Append)
    }

    fn cursor(&self) -> Option<u64> {
        None
    }

    fn moved(&self, _end: u64) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn bytes(&self, len: usize, show: &mut dyn FnMut(&[&[u8]])) {
        show(&[&self.bytes[..len]]);
    }
}

#[test]
fn any_damage_is_an_answer() {
    let nvm = Nvm::volatile(1 << 20).unwrap();
    let mut pool = Pool::create(nvm, &PoolSpec { uuid: [9; 16], ..PoolSpec::default() }).unwrap();
    let log = Log::prepare(&mut pool, &LogOptions::here()).unwrap().log;
    let (ticks, size) = (Cell::new(1), Cell::new(0));
    let client = Client::new(log).unwrap();
    let bytes: Vec<Vec<u8>> = (1..20u8).map(|n| vec![n; 10 * usize::from(n)]).collect();
    let call = |bytes| Write { ticks: &ticks, size: &size, bytes };
    let slot = client.slot(&call(&[]).look().unwrap()).unwrap().unwrap();
    client.sync(slot, &call(&[])).unwrap();
    for bytes in &bytes {
        client.write(slot, &call(bytes)).unwrap();
    }
    let whole = found(client.log()).unwrap();
    assert_eq!(whole.files.first().map(|file| file.records.len()), Some(bytes.len()));
    let (base, areas) = (pool.nvm().to_bytes().unwrap(), pool.header().areas.clone());
    let used: Vec<usize> = areas
        .iter()
        .flat_map(|area| area.start as usize..(area.start + area.len) as usize)
        .filter(|at| base[*at] != 0 || at.is_multiple_of(997))
        .collect();
    let (mut state, mut answers) = (1u64, [0, 0]);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..1500 {
        let mut bad = base.clone();
        for _ in 0..1 + random() % 3 {
            let at = used[random() % used.len()];
            match random() % 3 {
                0 => bad[at] ^= 1 << (random() % 8),
                1 => bad[at] = 0xFF,
                // A word, as a lost line or a wild store leaves it.
                _ => bad[at / 8 * 8..at / 8 * 8 + 8].fill(random() as u8),
            }
        }
        let Ok(log) = Log::join(Nvm::from_bytes(&bad).unwrap()) else { continue };
        let answer = found(&log);
        answers[usize::from(answer.as_ref().is_ok_and(|now| *now == whole))] += 1;
        for record in answer.unwrap_or_default().files.iter().flat_map(|file| &file.records) {
            assert!(bytes.contains(&record.bytes), "bytes that nobody wrote");
        }
        // It may refuse; what it reads of other processes is not trusted.
        let _ = Drain::new(log).and_then(|mut drain| drain.step(false));
    }
    assert!(answers.iter().all(|n| *n > 20), "{answers:?}");
}
