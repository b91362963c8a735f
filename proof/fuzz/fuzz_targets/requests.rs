//! Target `requests`: see `ondol_hostile::Target::Requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Requests.run(bytes));
