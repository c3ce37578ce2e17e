//! What users may write as a CEL expression.

#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;

static HOOK: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    // The gateway catches what panics in the CEL library; libFuzzer's hook would end the process before.
    HOOK.call_once(|| drop(std::panic::take_hook()));
    hawsepipe_fuzz::expressions(data);
});
