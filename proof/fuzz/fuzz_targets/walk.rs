//! Target `walk`: see `ondol_hostile::Target::Walk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Walk.run(bytes));
