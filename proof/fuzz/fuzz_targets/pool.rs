//! Target `pool`: see `ondol_hostile::Target::Pool`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Pool.run(bytes));
