//! What a worker may write to its socket.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawsepipe_fuzz::frames(data);
});
