//! Target `any`: see `ondol_hostile::Target::Any`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Any.run(bytes));
