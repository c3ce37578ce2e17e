//! Ends a check that takes too many steps, or too much stack.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The number of bytes of stack that a check may take. A thread of the runtime has 2 MiB.
const STACK: usize = 768 << 10;

thread_local! {
    /// The steps that the check which runs on this thread may still take.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Where the stack of this thread was when the check began; 0 while none runs.
    static BOTTOM: Cell<usize> = const { Cell::new(0) };
}

/// Why a check was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It took more steps than it may.
    TooLong,
    /// It took more stack than it may.
    TooDeep,
}

/// Runs a check that may take this many steps. Those that it takes are taken from `steps`.
pub(super) fn within<T>(steps: &mut u64, check: impl FnOnce() -> T) -> Result<T, Ended> {
    LEFT.set(*steps);
    BOTTOM.set(place());
    // Unwinding ends a check at once, wherever it is. The value is no panic: no hook is called.
    let done = catch_unwind(AssertUnwindSafe(check));
    BOTTOM.set(0);
    *steps = LEFT.get();
    done.map_err(|why| match why.downcast::<Ended>() {
        Ok(ended) => *ended,
        Err(panic) => resume_unwind(panic),
    })
}

/// Returns where the stack of this thread is.
#[inline(never)]
fn place() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Takes steps from those of the check that runs on this thread, and ends it where there are too few, or the stack is.
pub(super) fn spend(steps: u64) {
    let bottom = BOTTOM.get();
    if bottom == 0 {
        return;
    }
    let rest = LEFT.get().checked_sub(steps);
    LEFT.set(rest.unwrap_or_default());
    if rest.is_none() {
        end(Ended::TooLong)
    }
    if bottom.abs_diff(place()) > STACK {
        end(Ended::TooDeep)
    }
}

fn end(why: Ended) -> ! {
    resume_unwind(Box::new(why) as Box<dyn Any + Send>)
}
