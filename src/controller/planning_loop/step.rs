//! Decides what a round of the planning loop does.

/// The work of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: another process leads.
    StandBy,
    /// Nothing: a kind that plans depend on was never listed.
    Hold,
    /// Write what was compiled, as far as it is not written yet.
    Apply,
    /// Compile everything again, and write it.
    Compile,
}

/// Decides what a round does. `led` is true if the previous round applied plans, `changed` if anything has changed
/// since then.
pub(super) fn step(leads: bool, led: bool, changed: bool, is_held: impl FnOnce() -> bool) -> Step {
    if !leads {
        Step::StandBy
    } else if is_held() {
        Step::Hold
    } else if led && !changed {
        Step::Apply
    } else {
        Step::Compile
    }
}
