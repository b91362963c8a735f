//! Target `contents`: see `ondol_hostile::Target::Contents`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Contents.run(bytes));
