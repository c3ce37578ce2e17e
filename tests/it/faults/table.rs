//! What plugins do wrong, and what each of it may come to.

/// Milliseconds that an entry has which is not expected to answer.
const SHORT: u64 = 300;
/// That one has which is, on a busy machine.
pub const LONG: u64 = 20_000;

/// What a plugin does wrong.
pub struct Fault {
    pub name: &'static str,
    pub protocol: &'static str,
    /// How its entry may end: `ran`, or the reason of its failure. Where there are more than one, it is a race.
    pub may: &'static [&'static str],
    pub timeout_ms: u64,
    /// It takes all of the machine that it can get, so it has it to itself.
    pub bomb: bool,
    /// Its worker ends by itself after a good answer.
    pub ends: bool,
}

const fn module(name: &'static str, may: &'static [&'static str]) -> Fault {
    Fault { name, protocol: "module", may, timeout_ms: LONG, bomb: false, ends: false }
}

/// A Module that may serve several calls at a time.
const fn shared(name: &'static str, may: &'static [&'static str]) -> Fault {
    Fault { protocol: "shared", ..module(name, may) }
}

const fn once(name: &'static str, may: &'static [&'static str]) -> Fault {
    Fault { protocol: "once", ..module(name, may) }
}

const fn lines(name: &'static str, may: &'static [&'static str]) -> Fault {
    Fault { protocol: "lines", ..module(name, may) }
}

const fn reused(name: &'static str, may: &'static [&'static str]) -> Fault {
    Fault { protocol: "reuse", ..module(name, may) }
}

impl Fault {
    const fn short(self) -> Self {
        Self { timeout_ms: SHORT, ..self }
    }

    const fn bomb(self) -> Self {
        Self { bomb: true, ..self.short() }
    }

    const fn ends(self) -> Self {
        Self { ends: true, ..self }
    }
}

const RAN: &[&str] = &["ran"];
const LATE: &[&str] = &["Timeout"];
const INVALID: &[&str] = &["InvalidOutput"];
const LARGE: &[&str] = &["TooLarge"];
const CRASHED: &[&str] = &["Crashed"];
const EXITED: &[&str] = &["ExitCode"];
/// Whether its memory or the deadline ends it first is open.
const HELD: &[&str] = &["Timeout", "Crashed"];
/// Whether a bound of the machine or the deadline ends it first is open.
const BURST: &[&str] = &["Timeout", "Crashed", "ExitCode", "PluginError"];

/// All of them.
pub const FAULTS: &[Fault] = &[
    module("loop", LATE).short(),
    module("regex", LATE).short(),
    module("heap", BURST).bomb(),
    module("buffers", BURST).bomb(),
    module("threads", BURST).bomb(),
    module("forks", BURST).bomb(),
    module("promises", HELD).short(),
    module("stdout-flood", RAN),
    module("stderr-flood", RAN),
    // The stream is out of step: what stands where a frame should begin is open.
    module("half-a-frame", &["Timeout", "InvalidOutput"]).short(),
    module("endless-frame", LARGE),
    module("unknown-frame", INVALID),
    module("invalid-utf8", INVALID),
    module("two-answers", RAN),
    module("wrong-id", RAN),
    module("early-id", RAN),
    module("late-id", RAN),
    module("late-answer", LATE).short(),
    module("own-id", INVALID),
    module("huge", LARGE),
    module("deep", RAN),
    module("exit", CRASHED),
    module("exit-writing", CRASHED),
    module("exit-answered", RAN).ends(),
    module("abort", CRASHED),
    module("reject", CRASHED),
    module("overflow", &["PluginError"]),
    module("stop", LATE).short(),
    module("closed-socket", CRASHED),
    module("closed-output", RAN),
    module("pollute", RAN),
    module("pollute-json", LATE).short(),
    shared("loop", LATE).short(),
    shared("heap", BURST).bomb(),
    shared("half-a-frame", &["Timeout", "InvalidOutput"]).short(),
    // It claims a header that does not come, so nobody knows whose answer is too large.
    shared("endless-frame", CRASHED),
    shared("unknown-frame", INVALID),
    shared("invalid-utf8", INVALID),
    shared("two-answers", RAN),
    shared("wrong-id", RAN),
    shared("late-answer", LATE).short(),
    shared("huge", LARGE),
    shared("exit", CRASHED),
    shared("exit-answered", RAN).ends(),
    shared("stop", LATE).short(),
    once("loop", LATE).short(),
    once("regex", LATE).short(),
    once("heap", BURST).bomb(),
    once("buffers", BURST).bomb(),
    once("threads", BURST).bomb(),
    once("forks", BURST).bomb(),
    once("promises", HELD).short(),
    once("no-newline", LARGE),
    once("lines-flood", &["TooLarge", "InvalidOutput"]),
    once("stderr-flood", RAN),
    once("cut-line", INVALID),
    once("whole-line", RAN),
    once("invalid-utf8", INVALID),
    once("two-answers", INVALID),
    once("late-answer", LATE).short(),
    once("huge", LARGE),
    once("gone", INVALID),
    once("unread", LATE).short(),
    once("exit-writing", EXITED),
    once("exit-answered", EXITED),
    once("exit-later", RAN),
    once("abort", CRASHED),
    once("reject", EXITED),
    once("overflow", EXITED),
    once("stop", LATE).short(),
    once("closed-output", LATE).short(),
    once("pollute", RAN),
    lines("loop", LATE).short(),
    lines("silent", LATE).short(),
    lines("heap", BURST).bomb(),
    lines("buffers", BURST).bomb(),
    lines("no-newline", LARGE),
    lines("stderr-flood", RAN),
    lines("cut-line", INVALID),
    lines("no-json", INVALID),
    lines("invalid-utf8", INVALID),
    lines("two-answers", INVALID),
    lines("late-answer", LATE).short(),
    lines("huge", LARGE),
    lines("exit", INVALID),
    lines("exit-answered", RAN).ends(),
    lines("throw", EXITED),
    lines("closed-output", LATE).short(),
    reused("loop", LATE).short(),
    reused("heap", BURST).bomb(),
    reused("buffers", BURST).bomb(),
    reused("promises", HELD).short(),
    // All that it prints is held there: whether the bound on answers or its memory ends it first is open.
    reused("no-newline", &["TooLarge", "ExitCode"]),
    reused("stderr-flood", RAN),
    reused("cut-line", INVALID),
    reused("invalid-utf8", INVALID),
    reused("two-answers", INVALID),
    reused("late-answer", LATE).short(),
    reused("huge", LARGE),
    reused("exit-writing", EXITED),
    reused("pollute", RAN),
];
