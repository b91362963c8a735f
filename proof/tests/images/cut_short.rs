//! What takes a volume away, or gives up a part of it, is cut short at every write: nobody takes the rest for what it
//! was.

use ondol::{FormatOptions, JournalEngine, Options, Volume, export_media, format_store, recover_store_by_force};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
use ondol_format::superblock::STATE_ERROR;
use ondol_stores::{FaultPlan, Faulty};
use ondol_testkit::image;
use ondol_volume::Image;

const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];

type Disk = Arc<Faulty<RamStore>>;

fn options(uuid: [u8; 16]) -> FormatOptions {
    FormatOptions::new().uuid(uuid).block_size(1024).journal_size(1 << 20).journal(JournalEngine::Classic)
}

fn open(disk: &Disk) -> ondol::Result<Volume> {
    Volume::open_stepped(disk.clone(), &Options::default(), image::clock(1))
}

/// A volume whose log holds four transactions.
fn volume(uuid: [u8; 16]) -> Vec<u8> {
    let disk = Arc::new(Faulty::new(RamStore::new(8 << 20)));
    format_store(&*disk, &options(uuid), true, &*image::clock(1)).expect("a volume");
    let volume = open(&disk).expect("a volume");
    for name in ["/a", "/b", "/c", "/d"] {
        volume.write(name, [7; 3000]).expect("a file");
        volume.sync().expect("a sync");
    }
    disk.inner().to_bytes()
}

/// Whether it failed, after so many writes; what is there then.
fn cut_short(bytes: &[u8], writes: u64, work: &dyn Fn(&Disk) -> ondol::Result<()>) -> (bool, Disk) {
    let disk = Arc::new(Faulty::new(RamStore::from_bytes(bytes.to_vec())));
    disk.arm(FaultPlan { writes: Some(writes), ..FaultPlan::default() });
    let failed = work(&disk).is_err();
    (failed, Arc::new(Faulty::new(RamStore::from_bytes(disk.inner().to_bytes()))))
}

fn takes_its_place(work: &dyn Fn(&Disk) -> ondol::Result<()>) {
    let old = volume(OLD);
    for writes in 0.. {
        let (failed, left) = cut_short(&old, writes, work);
        match Image::open(left.clone()) {
            Ok(image) if failed => {
                assert_eq!(image.superblock().raw().s_uuid, OLD, "{writes} writes");
                assert_eq!(left.inner().to_bytes(), old, "{writes} writes: the old volume has changed");
            }
            Ok(image) => return assert_eq!(image.superblock().raw().s_uuid, NEW),
            Err(e) => assert!(failed, "{writes} writes: {e}"),
        }
    }
}

#[test]
fn a_new_volume_takes_the_place_of_an_old_one() {
    for is_file in [false, true] {
        takes_its_place(&|disk| format_store(&**disk, &options(NEW), is_file, &*image::clock(1)));
    }
}

#[test]
fn a_copy_takes_the_place_of_an_old_volume() {
    let new: Arc<dyn BlockStore> = Arc::new(RamStore::from_bytes(volume(NEW)));
    takes_its_place(&|disk| export_media(new.clone().into(), &**disk, false));
}

/// A block of the log is damaged, or the journal's superblock.
#[test]
fn a_loss_is_not_forgotten() {
    let whole = volume(OLD);
    let journal = Image::open(Arc::new(RamStore::from_bytes(whole.clone()))).expect("an image").journal_map();
    let at = journal.expect("a journal")[0].0 as usize * 1024;
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let is_refused = |at: &usize| open(&Arc::new(Faulty::new(RamStore::from_bytes(damaged(*at))))).is_err();
    let in_log = (at + 1024 + 100..).step_by(1024).take(40).find(is_refused).expect("a log");
    for damaged_at in [at + 0xFC, in_log] {
        let damaged = damaged(damaged_at);
        let force = |disk: &Disk| {
            let disk: Arc<dyn BlockStore> = disk.clone();
            recover_store_by_force(&disk, image::clock(2)).map(|report| assert!(!report.given_up.is_empty()))
        };
        for writes in 0.. {
            let (failed, left) = cut_short(&damaged, writes, &force);
            let Ok(opened) = open(&left) else {
                assert!(failed, "byte {damaged_at}, {writes} writes: still refused");
                continue;
            };
            let lost = !opened.exists("/d").expect("an answer");
            opened.close().expect("closed");
            let state = Image::open(left).expect("an image").superblock().raw().s_state.get();
            assert!(
                lost && state & STATE_ERROR != 0,
                "byte {damaged_at}, {writes} writes: nothing says that it has errors"
            );
            if !failed {
                break;
            }
        }
    }
}
