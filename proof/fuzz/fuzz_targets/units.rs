//! Target `units`: see `ondol_hostile::Target::Units`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Units.run(bytes));
