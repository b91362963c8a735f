//! Words that users write: mount options, sizes, features, calls of the test grammar, paths.

use crate::input::Input;
use ondol::{DataMode, Options, Volume};
use ondol_block::{BlockStore, LayerStore};
use ondol_env::sync::Arc;
use ondol_format::feature::Features;
use ondol_testkit::image;
use ondol_testkit::op::text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::image::{Kind, Seed};

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let word = input.u8();
    let rest = input.all();
    match word % 4 {
        3 => paths(rest),
        n => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            match n {
                0 => drop(Options::parse(text)),
                1 => {
                    let _ = ondol::parse_size(text);
                    let _ = Features::UPSTREAM.apply(text);
                }
                _ => {
                    if let Ok(ops) = text::parse(text) {
                        let again = text::parse(&text::print(&ops));
                        assert!(again.as_ref() == Ok(&ops), "calls that are read differently once written");
                    }
                }
            }
        }
    }
}

/// Lines that are paths, given to the facade in turn.
fn paths(bytes: &[u8]) {
    let store: Arc<dyn BlockStore> = Arc::new(LayerStore::new(Seed::of(Kind::Csum).layer.clone()));
    let options = image::options(DataMode::Ordered);
    let volume = Volume::open_stepped(store, &options, image::clock(1)).expect("a seed is sound");
    let lines: Vec<&OsStr> = bytes.split(|b| *b == b'\n').take(24).map(OsStr::from_bytes).collect();
    let mut last = OsStr::new("/file");
    for (i, line) in lines.into_iter().enumerate() {
        match i % 8 {
            0 => drop(volume.metadata(line)),
            1 => drop(volume.create_dir_all(line)),
            2 => drop(volume.symlink(last, line)),
            3 => drop(volume.write(line, b"text")),
            4 => drop(volume.rename(last, line)),
            5 => drop(volume.read(line)),
            6 => drop(volume.hard_link(last, line)),
            _ => drop(volume.remove_dir_all(line)),
        }
        last = line;
    }
    volume.close().expect("calls by path leave a volume that closes");
}
