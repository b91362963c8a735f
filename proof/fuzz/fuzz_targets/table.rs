//! Target `table`: see `ondol_hostile::Target::Table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Table.run(bytes));
