//! Target `log`: see `ondol_hostile::Target::Log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Log.run(bytes));
