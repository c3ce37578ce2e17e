//! What a worker may write to its socket.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

fuzz_target!(init: survive_broken_pipes(), |data: &[u8]| {
    hawsepipe_fuzz::frames(data);
});

/// libFuzzer has a main of its own, which does not ignore the signal of a write to a worker that is gone, as Rust's
/// does. A handler stays once it is there.
fn survive_broken_pipes() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { signal(SignalKind::pipe()) }).expect("a handler of a signal");
}
