//! What takes a volume away is cut short at every write: nobody takes what is left for what it was.

use ondol::{FormatOptions, JournalEngine, Options, Volume, export_media, format_store};
use ondol_block::{BlockStore, RamStore};
use ondol_env::sync::Arc;
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
                assert_eq!(image.superblock().uuid(), &OLD, "{writes} writes");
                assert_eq!(left.inner().to_bytes(), old, "{writes} writes: the old volume has changed");
            }
            Ok(image) => return assert_eq!(image.superblock().uuid(), &NEW),
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
