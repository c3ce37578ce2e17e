//! The types of conditions, and which status of each is good.

/// The type of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionType {
    /// The object is valid on its own.
    Accepted,
    /// Everything that the object refers to exists and can be used.
    ResolvedRefs,
    /// All ready pods of the gateways that use the object run its current form.
    Programmed,
    /// The server of the upstream answers.
    Connected,
    /// The definitions of the tools are those that the owner of the upstream approved.
    ToolsApproved,
    /// Part of the object has no effect.
    PartiallyInvalid,
    /// Calls are refused because of this object.
    Refusing,
    /// A Guard of the chain lets calls pass when it fails.
    FailsOpen,
    /// A plugin's workers exit as soon as they start.
    CrashLooping,
    /// Plugins run less confined than they should.
    SandboxDegraded,
    /// Nothing is wrong with the object.
    Ready,
}

impl ConditionType {
    const ALL: [Self; 11] = [
        Self::Accepted,
        Self::ResolvedRefs,
        Self::Programmed,
        Self::Connected,
        Self::ToolsApproved,
        Self::PartiallyInvalid,
        Self::Refusing,
        Self::FailsOpen,
        Self::CrashLooping,
        Self::SandboxDegraded,
        Self::Ready,
    ];

    /// Returns the name of the type in a status.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::Programmed => "Programmed",
            Self::Connected => "Connected",
            Self::ToolsApproved => "ToolsApproved",
            Self::PartiallyInvalid => "PartiallyInvalid",
            Self::Refusing => "Refusing",
            Self::FailsOpen => "FailsOpen",
            Self::CrashLooping => "CrashLooping",
            Self::SandboxDegraded => "SandboxDegraded",
            Self::Ready => "Ready",
        }
    }

    /// Returns the type with this name in a status; `None` if no type has it.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    /// Whether the status `True` is bad. Such a condition is present only while it is true (Kubernetes, API
    /// conventions, conditions of abnormal-true polarity).
    pub(super) fn is_bad_while_true(self) -> bool {
        match self {
            Self::PartiallyInvalid | Self::Refusing | Self::FailsOpen | Self::CrashLooping | Self::SandboxDegraded => {
                true
            }
            Self::Accepted
            | Self::ResolvedRefs
            | Self::Programmed
            | Self::Connected
            | Self::ToolsApproved
            | Self::Ready => false,
        }
    }
}
