//! Target `crash`: see `ondol_hostile::Target::Crash`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Crash.run(bytes));
