//! The stack on which expressions are evaluated.

/// The stack in bytes that must be left for what one argument evaluates before its next function of `exact` or `checked`: all
/// operators that a text may have. Where the engine's evaluator is not optimised, a frame of it has some 20 KiB.
const LEAST_STACK: usize = if cfg!(debug_assertions) { 4 << 20 } else { 512 << 10 };
/// The stack in bytes that is taken beside where less is left.
const MORE_STACK: usize = 16 << 20;

/// Runs `act`, on more stack if there is little left.
pub(super) fn with_stack<T>(act: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST_STACK, MORE_STACK, act)
}
