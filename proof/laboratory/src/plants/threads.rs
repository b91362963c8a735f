//! Defects that only a second thread shows.

use super::FULL;
use crate::image::Kind;
use crate::workload::{Mount, Others, Schedules, Workload};
use ondol::{DataMode, JournalEngine};
use ondol_faults::Defect;
use ondol_testkit::op::{Op, text};

/// A planted defect, and two threads that show it in some of their interleavings.
#[derive(Clone, Debug)]
pub struct Threaded {
    /// What is planted.
    pub defect: Defect,
    /// How the volume is mounted.
    pub engine: JournalEngine,
    /// And in which data mode.
    pub data: DataMode,
    image: Kind,
    mount: Mount,
    /// Calls of the first thread that are done before the second begins.
    lead: usize,
    /// Calls before the recording, and of both threads, as text.
    texts: [String; 3],
}

/// Those of an engine. The defects of what all engines share are shown in each of them.
pub fn threaded(engine: JournalEngine) -> Vec<Threaded> {
    // What engines share is shown in the others, with less memory to look at.
    if matches!(engine, JournalEngine::Swap | JournalEngine::Remap) {
        return Vec::new();
    }
    let of = |defect, before: &str, one: &str, other: &str| Threaded {
        defect,
        engine,
        data: DataMode::Ordered,
        image: Kind::Small,
        // Room for all that the log can hold: no checkpoint comes before its time.
        mount: Mount::Roomy,
        lead: 0,
        texts: [before, one, other].map(str::to_owned),
    };
    // More than half of the log.
    let crowded = log(if engine == JournalEngine::Classic { 9 } else { 14 });
    let shared = vec![
        of(Defect::TornPublish, "", "create /a 0644\ncreate /b 0644\ncreate /c 0644", &"sync\n".repeat(30)),
        of(Defect::LostNewerImage, &crowded, "idle 6", "chown / 1 0\nsync"),
        // A block of its own, which only the running transaction holds.
        of(Defect::EarlyForget, "create /a 0644", "setxattr /a user.x 600 #1\nremovexattr /a user.x", "sync"),
        // One thread alone has all stores in one transaction.
        of(Defect::StoresApart, FILE, "map-commit /a 500 1000 2000 3 #2", "sync\nsync"),
        // Between the map and its commit somebody else writes between its stores.
        of(Defect::StoredPages, FILE, "map-commit /a 0 300 1500 2 #2", "write /a 900 300 #3"),
    ];
    let gap = Threaded {
        data: DataMode::Journal,
        ..of(
            Defect::PromiseInGap,
            // What is left of the log is enough for the running transaction, and not for that and the other thread's.
            &format!("create /a 0644\ncreate /b 0644\ncreate /c 0644\ncreate /d 0644\n{}", changes(262)),
            "write /a 0 60000 #1\nwrite /b 0 60000 #2\nwrite /c 0 60000 #3\nsync",
            "write /d 0 60000 #4\nsync",
        )
    };
    let reuse = of(
        Defect::ReuseDuringCheckpoint,
        &format!("{crowded}{FULL}\nunlink /hole\nsync\nmkdir /d 0755\nsync"),
        "idle 6",
        "rmdir /d\nsync\nwrite /b 0 8K #2\nsync",
    );
    let unwritten = of(
        Defect::UnwrittenLate,
        "create /old 0644\nwrite /old 0 9000 #1\nsync\nunlink /old\nsync\ncreate /a 0644\nfallocate /a 0 9000",
        "write /a 0 9000 #2",
        "sync",
    );
    let staging = Threaded {
        data: DataMode::Journal,
        mount: Mount::Zeroing,
        lead: 1,
        ..of(
            Defect::UnawaitedStaging,
            "create /a 0644\nsync",
            "write /a 0 64K #1\nwrite /a 0 64K #2\nsync",
            // Takes a hand in writing what was to be written before.
            "create /b 0644",
        )
    };
    // Each takes a slot of the orphan file, which has one block, while that of the other is cleared.
    let closed = "create /x 0644\nopen @0 /x\nunlink /x\nclose @0\n".repeat(3);
    let kept = "create /y 0644\nopen @1 /y\nunlink /y\nsync\nclose @1\n".repeat(3);
    let slot = Threaded { image: Kind::Foreign, ..of(Defect::EarlySlot, "", &closed, &kept) };
    let own = match engine {
        JournalEngine::Classic => vec![unwritten, reuse, gap, slot],
        JournalEngine::Scalable => vec![staging, older()],
        _ => vec![staging],
    };
    shared.into_iter().chain(own).filter(|threaded| threaded.image.is_possible()).collect()
}

/// Two threads free blocks. The second one syncs and hands its block on before the first one has told what its record
/// frees.
fn older() -> Threaded {
    // As much as a checkpoint takes, and more, so that what is freed is freed behind it.
    let much: String = (1..=40).map(|n| format!("setxattr /f user.x 600 #{n}\n")).collect();
    let owners =
        "create /b 0644\nmkdir /d 0755\ncreate /d/x 0644\nunlink /d/x\ncreate /e 0644\nsetxattr /e user.x 600 #50";
    // Neither waits for a lock of the other: one changes a file, one a directory.
    let texts = [
        format!("{owners}\ncreate /f 0644\n{much}sync"),
        "removexattr /e user.x\nsync".into(),
        "rmdir /d\nsync\nwrite /b 0 1K #90".into(),
    ];
    let (defect, engine) = (Defect::OlderRelease, JournalEngine::Scalable);
    let (data, image, mount) = (DataMode::Ordered, Kind::Small, Mount::Dirty);
    Threaded { defect, engine, data, image, mount, lead: 0, texts }
}

/// A file of several blocks.
const FILE: &str = "create /a 0644\nwrite /a 0 9000 #1\nsync";

/// So many transactions of about 66 blocks each.
fn log(transactions: u32) -> String {
    let write = |n| format!("write /log 0 60K #{n}\nsync\n");
    "create /log 0600\nchattr /log j\n".to_owned() + &(1..=transactions).map(write).collect::<String>()
}

/// So many transactions of few blocks each: about three in the log of `classic`.
fn changes(count: u32) -> String {
    (0..count).map(|n| format!("chmod / 070{}\nsync\n", n % 8)).collect()
}

impl Threaded {
    /// What shows the defect, in `count` interleavings from number `seed` on.
    ///
    /// # Errors
    /// The texts are no calls.
    pub fn workload(&self, seed: u64, count: u32) -> Result<Workload, text::ParseError> {
        let [before, one, other] = &self.texts;
        let calls: Vec<Op> = text::parse(one)?;
        let others = vec![text::parse(other)?];
        Ok(Workload {
            name: format!("what shows {}", self.defect),
            image: self.image,
            mount: self.mount,
            before: text::parse(before)?,
            remount: false,
            calls,
            others: Some(Others {
                calls: others,
                schedules: Schedules::Search { seed, count },
                background: None,
                lead: self.lead,
            }),
        })
    }
}
