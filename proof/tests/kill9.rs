//! `kill -9` of the server under load: everything that was synced is there afterwards, and e2fsck finds nothing to
//! mend.

use ondol::{DataMode, FormatOptions, JournalEngine};
use ondol_laboratory::kill::{Report, Setting, run};
use ondol_skips::skips;
use ondol_testkit::image::scratch_dir;
use ondol_tests::{no_fuse_mount, parameter, program};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const CLASSIC: JournalEngine = JournalEngine::Classic;
const COMPRESSED: JournalEngine = JournalEngine::Compressed;
const SCALABLE: JournalEngine = JournalEngine::Scalable;

fn rounds(program: &Path, format: FormatOptions, engine: JournalEngine, data: DataMode) -> Report {
    let dir = scratch_dir().unwrap();
    let setting = Setting {
        program: program.to_owned(),
        dir: dir.path().to_owned(),
        format: format.size(32 << 20),
        data,
        engine,
        rounds: parameter("ONDOL_KILLS", 6),
        threads: 3,
        seed: parameter("ONDOL_SEED", 1),
        plant: None,
    };
    run(&setting, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn nothing_is_lost(format: FormatOptions, engine: JournalEngine, data: DataMode) {
    if skips(no_fuse_mount()) {
        return;
    }
    let report = rounds(program().unwrap(), format, engine, data);
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!((report.kills, report.rounds), (parameter("ONDOL_KILLS", 6), parameter("ONDOL_KILLS", 6)));
    assert!(report.lacks.is_empty(), "{:#?}", report.lacks);
    assert!(report.syncs > 0 && report.synced_files > 0, "{report:?}");
}

#[test]
fn ordered() {
    nothing_is_lost(FormatOptions::new().block_size(4096), CLASSIC, DataMode::Ordered);
}

#[test]
fn writeback() {
    nothing_is_lost(FormatOptions::new().block_size(4096), CLASSIC, DataMode::Writeback);
}

#[test]
fn journal() {
    let format = FormatOptions::new().block_size(1024).features("orphan_file");
    nothing_is_lost(format, CLASSIC, DataMode::Journal);
}

#[test]
fn compressed_journal() {
    nothing_is_lost(FormatOptions::new().block_size(4096), COMPRESSED, DataMode::Journal);
}

#[test]
fn compressed_ordered() {
    nothing_is_lost(FormatOptions::new().block_size(1024), COMPRESSED, DataMode::Ordered);
}

#[test]
fn scalable_journal() {
    nothing_is_lost(FormatOptions::new().block_size(4096), SCALABLE, DataMode::Journal);
}

#[test]
fn scalable_ordered() {
    nothing_is_lost(FormatOptions::new().block_size(1024), SCALABLE, DataMode::Ordered);
}

#[test]
fn swap_journal_in_a_pool() {
    nothing_is_lost(FormatOptions::new().block_size(4096), JournalEngine::Swap, DataMode::Journal);
}

#[test]
fn remap_journal_in_a_pool() {
    nothing_is_lost(FormatOptions::new().block_size(4096), JournalEngine::Remap, DataMode::Journal);
}

#[test]
fn remap_ordered_in_a_pool() {
    nothing_is_lost(FormatOptions::new().block_size(4096), JournalEngine::Remap, DataMode::Ordered);
}

/// A server whose recovery brings back the image as it was in the beginning.
#[test]
fn a_server_that_forgets_is_found() {
    if skips(no_fuse_mount()) {
        return;
    }
    let dir = scratch_dir().unwrap();
    let forgetful = dir.path().join("ondol");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = mount ]; then\n  [ -e \"$5.first\" ] && cp \"$5.first\" \"$5\" || cp \"$5\" \
         \"$5.first\"\nfi\nexec '{}' \"$@\"\n",
        program().unwrap().display()
    );
    std::fs::write(&forgetful, script).unwrap();
    std::fs::set_permissions(&forgetful, Permissions::from_mode(0o755)).unwrap();
    let report = rounds(&forgetful, FormatOptions::new().block_size(4096), CLASSIC, DataMode::Ordered);
    assert!(!report.violations.is_empty(), "{report:?}");
}
