//! The trial of object storage in the documents runs as it stands there.

use crate::namespace::{place, run};
use std::fs;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/object-storage.md");

#[test]
fn the_trial_of_object_storage_runs() {
    let Some(place) = place() else { return };
    let text = fs::read_to_string(DOCUMENT).unwrap();
    let mut blocks = text.split("\n```sh\n").skip(1).filter_map(|part| part.split("\n```").next());
    let block = blocks.find(|block| block.starts_with("mkdir -p mnt")).expect("it is there");
    let (before, after) = (
        r#"mkdir "$D/bin" "$D/trial"; PATH=$D/bin:$PATH; ln -s "$D/ondol" "$D/bin/ondol"; cd "$D/trial""#,
        r#"e2fsck -fn copy.img; [ "$(ondol cat copy.img /file)" = text ]"#,
    );
    run(&place, &format!("{before}\n{block}\n{after}\n"));
}
