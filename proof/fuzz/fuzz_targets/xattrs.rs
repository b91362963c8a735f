//! Target `xattrs`: see `ondol_hostile::Target::Xattrs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ondol_hostile::Target::Xattrs.run(bytes));
