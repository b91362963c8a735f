//! Target `names`: see `ondol_hostile::Target::Names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Names.run(bytes));
