//! Target `words`: see `ondol_hostile::Target::Words`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Words.run(bytes));
