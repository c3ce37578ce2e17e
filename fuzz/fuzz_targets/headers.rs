//! The headers of a client's request, and what its body names.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawsepipe_fuzz::wire::headers(data);
});
