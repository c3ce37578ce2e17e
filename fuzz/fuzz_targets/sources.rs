//! What a plugin's code may be.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawsepipe_fuzz::sources(data);
});
