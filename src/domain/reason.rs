//! The closed list of reasons: one word in status conditions, events, metric labels, records and logs alike.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Why something is not as it should be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason { $(#[doc = $doc] $name,)* }

        impl Reason {
            /// The word itself.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, for the reference.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc.trim_ascii(),)* }
            }

            /// Every reason, in the order of this file.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

reasons! {
    // -- of one execution -------------------------------------------------------------------------
    /// The answer is not a contract 1.0 output, or its content is not valid for the phase.
    InvalidOutput,
    /// The plugin reported an `error`.
    PluginError,
    /// The worker ended by a signal, or its socket closed, before it answered.
    Crashed,
    /// A `Once` script ended with another code than 0.
    ExitCode,
    /// No answer by the deadline.
    Timeout,
    /// No worker was free before the queue's deadline, or the queue was full.
    PoolExhausted,
    /// The worker cannot be started here.
    NotLoaded,
    /// Input, output, stderr or a file over its limit; an object that is too large for a plan.
    TooLarge,
    // -- of an object alone -----------------------------------------------------------------------
    /// Not an object of this kind: an unknown field, a wrong type, a value out of range, a broken rule.
    InvalidObject,
    /// A document that is not YAML, or not a text in UTF-8.
    InvalidYaml,
    /// A CEL expression that does not compile, or exceeds its bounds.
    InvalidExpression,
    /// A glob that does not compile.
    InvalidPattern,
    /// A `config` that does not fit its schema, or settings that exclude each other.
    InvalidConfig,
    /// Plugin code that does not parse, or is not a text in UTF-8.
    SyntaxError,
    /// Plugin code that is not what `sha256` names.
    DigestMismatch,
    /// Plugin code whose exports do not suit its protocol, phases or type.
    UnsupportedExports,
    /// A field that this version accepts and does nothing with.
    NotImplemented,
    /// What only a cluster can serve.
    ClusterOnly,
    /// What only a standalone gateway can serve.
    StandaloneOnly,
    // -- of what an object names ------------------------------------------------------------------
    /// No such Plugin.
    PluginNotFound,
    /// That Plugin was never accepted.
    PluginNotAccepted,
    /// Across a namespace without the owner's consent.
    RefNotPermitted,
    /// That Plugin does not serve this phase.
    WrongPhase,
    /// That Plugin is not middleware.
    WrongType,
    /// No such Secret, or no such key in it.
    SecretNotFound,
    /// A Secret of another namespace whose owner has not granted it to the gateway.
    SecretNotGranted,
    /// A Secret whose value cannot be used as it is.
    InvalidSecret,
    /// No such ConfigMap.
    ConfigMapNotFound,
    /// It cannot be read now; it may be there.
    Unreadable,
    /// No such key in that ConfigMap.
    KeyNotFound,
    /// No such chain.
    ChainNotFound,
    /// No such server object, or it does not say yet where the server is.
    ServerNotFound,
    /// A kind that the cluster does not have, or that the operator may not read.
    KindNotSupported,
    /// No such file, or it cannot be read.
    FileNotFound,
    /// Two upstreams of one gateway have one name.
    NameConflict,
    /// A tool that an override names is not there.
    ToolNotFound,
    /// Two tools would have one name, or the name is too long.
    ToolNameConflict,
    /// A tool that clients could not read, or that none of them could call; it is not offered.
    InvalidTool,
    // -- of what runs -----------------------------------------------------------------------------
    /// The last accepted form runs on.
    PreviousRevision,
    /// A chain with no enabled entry.
    NothingEnabled,
    /// A chain that selects no upstream.
    NoUpstreams,
    /// Manifests without an upstream.
    NothingToServe,
    /// A guard with a policy weaker than `Fail`, or in mode `Shadow`.
    GuardWeakened,
    /// A guard that cannot run.
    GuardUnavailable,
    /// A chain that the gateway requires is not in force.
    RequiredChainMissing,
    /// The stop switch.
    Stopped,
    /// An entry that cannot run.
    EntryUnavailable,
    /// Shared with this gateway, which does not take from there.
    NoGateway,
    /// A chain that no gateway takes.
    NotTaken,
    /// A plugin that no chain names.
    NotUsed,
    /// It is on its way.
    Pending,
    /// The operator does not have a right that this needs.
    Forbidden,
    /// None of a gateway's pods is ready.
    NoReadyPods,
    /// A revision that is pinned runs, not the newest.
    Pinned,
    /// The revision that is pinned is not kept.
    RevisionNotFound,
    /// An object of this name is somebody else's.
    NameTaken,
    /// The sandbox that is required cannot be had.
    SandboxUnavailable,
    /// The kernel of a pod does not enforce all of the sandbox.
    KernelTooOld,
    /// A part of a compiled revision is not there.
    SnapshotIncomplete,
    /// A part of a compiled revision is not what its digest says, or cannot be read.
    SnapshotUnreadable,
    /// A compiled revision has a format that this version of the gateway does not know.
    UnknownFormat,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
