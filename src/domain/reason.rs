//! The closed list of reasons. The same names appear in status conditions, events, metric labels, records and logs.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Why something failed, or differs from what its owner intended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason { $(#[doc = $doc] $name,)* }

        impl Reason {
            /// Returns the name of the reason.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Returns the meaning of the reason, for the reference in the documentation.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc.trim_ascii(),)* }
            }

            /// Every reason, in the order of this file.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

reasons! {
    // -- about executions -------------------------------------------------------------------------
    /// The answer is not a contract 1.0 output, or its content is not valid for the phase.
    InvalidOutput,
    /// The plugin reported an `error`.
    PluginError,
    /// The worker ended by a signal, or its socket closed, before it answered.
    Crashed,
    /// A `Once` script ended with an exit code other than 0.
    ExitCode,
    /// The plugin did not answer by the deadline.
    Timeout,
    /// No worker was free before the queue's deadline, or the queue was full.
    PoolExhausted,
    /// The worker cannot be started on this machine.
    NotLoaded,
    /// An input, output, stderr text or file exceeds its limit, or an object is too large for a plan.
    TooLarge,
    // -- about an object itself -------------------------------------------------------------------
    /// The object is not valid for its kind: an unknown field, a wrong type, a value out of range, a broken rule.
    InvalidObject,
    /// The document is not YAML, or not text in UTF-8.
    InvalidYaml,
    /// A CEL expression does not compile, or exceeds its bounds.
    InvalidExpression,
    /// A glob does not compile.
    InvalidPattern,
    /// A `config` does not fit its schema, or settings exclude each other.
    InvalidConfig,
    /// Plugin code does not parse, or is not text in UTF-8.
    SyntaxError,
    /// Plugin code does not have the digest that `sha256` names.
    DigestMismatch,
    /// The exports of plugin code do not suit its protocol, phases or type.
    UnsupportedExports,
    /// This version accepts the field but ignores it.
    NotImplemented,
    /// The setting is available only in a cluster.
    ClusterOnly,
    /// The setting is available only in a standalone gateway.
    StandaloneOnly,
    // -- about references to other objects --------------------------------------------------------
    /// There is no such Plugin.
    PluginNotFound,
    /// The Plugin was never accepted.
    PluginNotAccepted,
    /// The reference crosses into a namespace without the consent of the object's owner.
    RefNotPermitted,
    /// The Plugin does not serve this phase.
    WrongPhase,
    /// The Plugin is not middleware.
    WrongType,
    /// There is no such Secret, or no such key in it.
    SecretNotFound,
    /// The Secret is in another namespace, and its owner has not granted it to the gateway.
    SecretNotGranted,
    /// The value of a Secret cannot be used.
    InvalidSecret,
    /// There is no such ConfigMap.
    ConfigMapNotFound,
    /// The object cannot be read now. Whether it exists is unknown.
    Unreadable,
    /// There is no such key in the ConfigMap.
    KeyNotFound,
    /// There is no such chain.
    ChainNotFound,
    /// There is no such server object, or its status does not have the server's address yet.
    ServerNotFound,
    /// The cluster does not have the kind, or the operator does not have permission to read it.
    KindNotSupported,
    /// The cluster does not have the CRDs of Gateway API.
    GatewayAPINotInstalled,
    /// There is no such file, or it cannot be read.
    FileNotFound,
    /// Two upstreams of one gateway have the same name.
    NameConflict,
    /// An override, a filter or a chain names a tool that does not exist.
    ToolNotFound,
    /// A changed argument of an override does not fit the tool's input schema.
    InvalidOverride,
    /// Two tools would have the same name, or a name is too long.
    ToolNameConflict,
    /// The definition of a tool is not the approved one.
    DefinitionChanged,
    /// Clients cannot read the definition of the tool, or no client can call it. The tool is not offered.
    InvalidTool,
    /// Two prompts would have the same name, or two upstreams list the same URI. The first of them has it.
    ItemConflict,
    /// The definition of a prompt, a resource or a template is not offered, or the template finds no resources.
    InvalidItem,
    /// A chain over lists denied the definition of an item, failed on it, or refuses it. The item is not offered.
    DefinitionDropped,
    /// A chain with a Guard names no methods and sees tool calls alone, and one of its upstreams lists prompts or resources.
    MethodsNotNamed,
    /// A list of prompts, resources or templates cannot be read. The last one stays, and tools do not depend on it.
    ListUnread,
    /// Connections to the server end by themselves soon after they were made, again and again.
    ConnectionEnds,
    /// The address of a listener cannot be listened on, such as one that another program has.
    AddressUnavailable,
    // -- about what is deployed ------------------------------------------------------------------
    /// The last accepted form continues to run.
    PreviousRevision,
    /// The chain has no enabled entry.
    NothingEnabled,
    /// The chain selects no upstream.
    NoUpstreams,
    /// The manifests contain no upstream, or one of them declares no object.
    NothingToServe,
    /// A Guard has a failure policy weaker than `Fail`, or `mode: Shadow`.
    GuardWeakened,
    /// A Guard cannot run.
    GuardUnavailable,
    /// A chain that the gateway requires is not in force.
    RequiredChainMissing,
    /// The stop switch is set.
    Stopped,
    /// An entry cannot run.
    EntryUnavailable,
    /// No gateway selects the object, or the object is not shared with the gateway that does.
    NoGateway,
    /// No gateway selects the chain.
    NotTaken,
    /// No chain names the plugin.
    NotUsed,
    /// The change is not in effect yet.
    Pending,
    /// The operator does not have a permission that it needs.
    Forbidden,
    /// None of the gateway's pods is ready.
    NoReadyPods,
    /// The API server refuses pods of the gateway.
    PodsRefused,
    /// A pinned revision runs instead of the newest one.
    Pinned,
    /// The pinned revision is no longer stored.
    RevisionNotFound,
    /// Pods of a gateway, or of a managed upstream's server, do not start, or do not serve what the spec says.
    WorkloadNotReady,
    /// An object of this name exists and belongs to someone else.
    NameTaken,
    /// Another client keeps changing or deleting an object that the operator manages.
    Contested,
    /// The sandbox is required but cannot be set up.
    SandboxUnavailable,
    /// The kernel of a pod does not enforce the complete sandbox.
    KernelTooOld,
    /// A part of a compiled revision is missing.
    SnapshotIncomplete,
    /// A part of a compiled revision does not match its digest, or cannot be read.
    SnapshotUnreadable,
    /// This version of the gateway does not know the format of a compiled revision.
    UnknownFormat,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
