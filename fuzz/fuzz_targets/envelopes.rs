//! The body of a client's POST.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawsepipe_fuzz::wire::envelopes(data);
});
