//! What a plugin may answer.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawsepipe_fuzz::answers(data);
});
