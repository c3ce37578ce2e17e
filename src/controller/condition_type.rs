//! The types of conditions, and which status of each is the good one.

/// The type of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionType {
    /// What the object alone shows.
    Accepted,
    /// What it names is there, and may be used.
    ResolvedRefs,
    /// What is ready of the gateways runs it.
    Programmed,
    /// Of an upstream: its server answers.
    Connected,
    /// Part of the object has no effect.
    PartiallyInvalid,
    /// Calls are refused because of it.
    Refusing,
    /// A guard that fails lets calls pass.
    FailsOpen,
    /// Workers of a plugin end as soon as they start.
    CrashLooping,
    /// Plugins run less confined than they should.
    SandboxDegraded,
    /// Nothing is wrong.
    Ready,
}

impl ConditionType {
    const ALL: [Self; 10] = [
        Self::Accepted,
        Self::ResolvedRefs,
        Self::Programmed,
        Self::Connected,
        Self::PartiallyInvalid,
        Self::Refusing,
        Self::FailsOpen,
        Self::CrashLooping,
        Self::SandboxDegraded,
        Self::Ready,
    ];

    /// Its word in a status.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::Programmed => "Programmed",
            Self::Connected => "Connected",
            Self::PartiallyInvalid => "PartiallyInvalid",
            Self::Refusing => "Refusing",
            Self::FailsOpen => "FailsOpen",
            Self::CrashLooping => "CrashLooping",
            Self::SandboxDegraded => "SandboxDegraded",
            Self::Ready => "Ready",
        }
    }

    /// The type of this word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// Whether `True` is bad: such a condition exists only while it is true (Kubernetes, API conventions, conditions of
    /// abnormal-true polarity).
    pub(super) fn is_bad_while_true(self) -> bool {
        match self {
            Self::PartiallyInvalid | Self::Refusing | Self::FailsOpen | Self::CrashLooping | Self::SandboxDegraded => {
                true
            }
            Self::Accepted | Self::ResolvedRefs | Self::Programmed | Self::Connected | Self::Ready => false,
        }
    }
}
