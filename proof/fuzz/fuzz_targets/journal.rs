//! Target `journal`: see `ondol_hostile::Target::Journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Journal.run(bytes));
