//! The closed list of reasons. The same names appear in status conditions, events, metric labels, records, logs, and in
//! `data.reason` of errors for clients. `docs/reference/reasons.md` is written from it.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// Why something failed, or differs from what its owner intended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
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

            /// Returns the reason with this name; `None` if this version has none.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
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
    /// The plugin, or the server, did not answer by the deadline.
    Timeout,
    /// No worker was free before the queue's deadline, or the queue was full.
    PoolExhausted,
    /// The worker cannot be started on this machine.
    NotLoaded,
    /// An input, output, stderr text, file or answer exceeds its limit, or an object is too large for a plan.
    TooLarge,
    // -- about an object itself -------------------------------------------------------------------
    /// The object is not valid for its kind: an unknown field, a wrong type, a value out of range, a broken rule.
    InvalidObject,
    /// The document is not YAML, or not text in UTF-8.
    InvalidYaml,
    /// A CEL expression does not compile, or exceeds its bounds.
    InvalidExpression,
    /// A glob or a regular expression does not compile.
    InvalidPattern,
    /// A `config` does not fit its schema, or settings exclude each other.
    InvalidConfig,
    /// A schema of a pipeline's output is no JSON Schema of an object, or is not checked within bounds.
    InvalidSchema,
    /// A schema of a pipeline's output has no property `sources`.
    MissingSources,
    /// A part of the description of a plugin, or its wrapper, is not one that plugins of its type have.
    InvalidDescriptor,
    /// The gateway does not allow the plugin to be a program of its own.
    WrapperNotAllowed,
    /// Plugin code does not parse, or is not text in UTF-8.
    SyntaxError,
    /// Plugin code does not have the digest that `sha256` names.
    DigestMismatch,
    /// The exports of plugin code do not suit its protocol, phases or type.
    UnsupportedExports,
    /// This version accepts the field but ignores it.
    NotImplemented,
    /// A field of another form of configuration has no place in the objects that the form is converted to.
    NotConverted,
    /// The setting is available only in a cluster.
    ClusterOnly,
    /// The setting is available only in a standalone gateway.
    StandaloneOnly,
    // -- about references to other objects --------------------------------------------------------
    /// There is no such Plugin.
    PluginNotFound,
    /// The Plugin is not accepted, and no accepted form of it is known.
    PluginNotAccepted,
    /// The reference crosses into a namespace without the consent of the object's owner.
    RefNotPermitted,
    /// The Plugin does not serve this phase.
    WrongPhase,
    /// The Plugin is not middleware.
    WrongType,
    /// No model serves the role that an agent or a plugin names.
    ModelRoleNotFound,
    /// There is no such Secret, or no such key in it.
    SecretNotFound,
    /// The Secret is in another namespace, and its owner has not granted it to the gateway.
    SecretNotGranted,
    /// The value of a Secret cannot be used as it is, or is empty.
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
    /// There is no such MCPUpstream, or the gateway does not serve it.
    UpstreamNotFound,
    /// Another binding covers the same part of the same documents, for another upstream. The older one counts.
    Conflicted,
    /// There is no such file, or it cannot be read, or started as a program.
    FileNotFound,
    /// Two upstreams or pipelines of one gateway have the same name.
    NameConflict,
    /// An override, a filter or a chain names a tool that does not exist, or a chain or a Guard is left none.
    ToolNotFound,
    /// A condition of a chain's entry reads an argument that no tool which the entry runs on has.
    UnknownArgument,
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
    /// A chain with a Guard names no methods, so that the Guard sees tool calls alone.
    MethodsNotNamed,
    /// A rule that allows calls because of their arguments names no tool, upstream or label, so that lists show every tool.
    ItemsNotNamed,
    /// A list of prompts, resources or templates cannot be read. Where a chain must see it, what no list names may be refused.
    ListUnread,
    /// A list of the server is not as the protocol has it, but can be used: see the message.
    UnusualList,
    /// Tools have names that are too long for some clients, with what these put in front.
    LongNames,
    /// Connections to the server end by themselves soon after they were made, again and again.
    ConnectionEnds,
    /// The address of a listener cannot be listened on, such as one that another program has.
    AddressUnavailable,
    // -- about what is deployed ------------------------------------------------------------------
    /// The last accepted form continues to run.
    PreviousRevision,
    /// The chain has no enabled entry.
    NothingEnabled,
    /// The chain selects no upstream or names an unknown one, or the filter of a Guard in it selects none that it covers.
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
    /// `audit.mode` is Required, and the row of the call in the audit trail is not stored.
    AuditUnavailable,
    /// The history, the audit trail or the values of plugins cannot be written to their store, or read from it.
    StoreUnavailable,
    /// The keys of an issuer of tokens cannot be read, or the API server does not review tokens.
    IssuerUnavailable,
    /// An entry cannot run.
    EntryUnavailable,
    /// No gateway selects the object, or the object is not shared with the gateway that does.
    NoGateway,
    /// No gateway selects the chain or the binding.
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
    // -- about what clients are refused because there is too much of it ---------------------------
    /// The gateway has reached its limit of calls in flight.
    ConcurrentCalls,
    /// The upstream has reached its limit of calls in flight.
    UpstreamConcurrentCalls,
    /// The session or principal has reached its limit of calls in flight.
    SessionConcurrentCalls,
    /// More than half of the calls that the gateway allows are in flight, and the address has reached its limit.
    AddressConcurrentCalls,
    /// The session or principal has reached its limit of calls in total.
    SessionTotalCalls,
    /// The gateway has reached its limit of runs in progress, or the session or address its part of it.
    ConcurrentRuns,
    /// The execution of a plugin has reached its limit of tool calls in flight.
    PluginCalls,
    /// As many sessions have a process of the server as may, or users connections to it: all together, or one address or user.
    OwnProcesses,
    /// The gateway holds as many bytes of its clients and upstreams as it may.
    NoRoom,
    /// All sessions that the gateway can have are in use.
    Sessions,
    /// As many streams are open at the listener, or of the address, as may be.
    Streams,
    /// As many streams of notifications are open of the session as may be.
    SessionStreams,
    /// As many streams of calls are continued in the session as may be.
    ContinuedStreams,
    /// The client, the gateway or the upstream has as many subscriptions as it may.
    Subscriptions,
    /// As many calls wait for the input of their clients, or go on as tasks, as may, or as many of the address.
    ParkedCalls,
    /// As many questions of servers wait for the client, or for the client of the call, as may.
    Questions,
    /// Servers asked more during the call than its record has room for.
    TooManyQuestions,
    /// As many requests are being forwarded to other replicas, or for the address or the session, as may be.
    ForwardedRequests,
    // -- about calls and other requests that are refused for what they are ------------------------
    /// The gateway is shutting down.
    Draining,
    /// The upstream was taken out of routing, because its probes failed.
    AutoDisabled,
    /// A Guard or another protective setting cannot be enforced, so that nothing is served unprotected.
    FailsClosed,
    /// A plugin called a tool, a plugin on that call another one, and so on, deeper than may be.
    TooDeep,
    /// A plugin that runs on a list called a tool. Nobody made a call that this one could be a part of.
    NoCaller,
    /// A plugin that runs as a shadow called a tool. Shadows have no effect, so they cannot call tools.
    Shadow,
    /// The server asks for input, or reports, what a Guard would not see.
    GuardedInput,
    /// The parameters of a server's question are no object, or the schema of a step's question is no form.
    InvalidQuestion,
    /// The answer to a question of a step does not fit the question.
    InvalidAnswer,
    /// A key stands twice in one object of something that is checked.
    DuplicateKey,
    /// The arguments do not fit the input schema of the tool.
    InvalidArguments,
    /// HTTP headers do not match the arguments that they repeat.
    HeaderMismatch,
    /// The rules of the gateway do not allow the call.
    NotAuthorized,
    /// The client's token lacks a scope that a rule needs.
    InsufficientScope,
    /// The gateway offers no tool of this name.
    UnknownTool,
    /// The gateway offers no prompt of this name.
    UnknownPrompt,
    /// The gateway offers no resource with this URI.
    UnknownResource,
    /// The request comes from a section of a document that is bound to another upstream.
    OutsideSection,
    /// The place in a document that the request names is not valid.
    InvalidSection,
    /// The item is there and is withheld from clients, who are told that it is unknown.
    Withheld,
    /// The pipeline of the run, or a tool that it may call, was taken away or switched off while it ran.
    Withdrawn,
    /// The server asked for input first, and this gateway has not asked the client for a call like this one.
    ForeignInput,
    /// The call has a `requestState`, and its server speaks a version without it.
    UnknownRequestState,
    /// The task is not kept any more, or its server or tool is not offered any more.
    TaskGone,
    /// The session ended while the request was under way.
    SessionEnded,
    /// The replica that has the call or the stream has ended.
    ReplicaGone,
    /// The replica that has the call did not take the request.
    NotForwarded,
    /// The replica that has the call did not answer: the call may have gone on.
    OutcomeUnknown,
    /// No tool that is known fits the search, and the lists of some upstreams could not be read yet.
    ToolsUnknown,
    /// The index of `search_tools` could not be built.
    NoToolIndex,
    /// A step of a pipeline called a tool that the pipeline's `tools` do not include.
    ToolNotAllowed,
    /// A run of a pipeline has used up one of its budgets.
    BudgetExhausted,
    /// The values that a plugin stores have reached their limit (`limits.storeSize`).
    StoreFull,
    /// The value that a plugin sets has another version than it must have.
    StoreConflict,
    /// The caller may not change the values that all callers read (`store.writers`).
    StoreReadOnly,
    /// A source that a plugin reports has no title and no URL, a URL that no client may follow, or a member of another form.
    InvalidSource,
    /// What a plugin returned would break a rule of pipelines.
    InvalidCustomization,
    /// The endpoint of a language model cannot be reached, refuses the key, or does not answer in time.
    ModelUnavailable,
    /// Nobody can answer a question of a step of a pipeline: the client does not take it, or a Guard does not see it.
    CannotAsk,
    /// A language model, or a filter of its endpoint, refused to answer.
    ModelRefused,
    /// What a language model answered is no chat completion, or does not fit the schema that was asked for.
    ModelOutputInvalid,
    /// The output of a pipeline does not fit its schema, or is no JSON object.
    OutputInvalid,
    /// No step of a pipeline gave an output.
    NoOutput,
    // -- about how calls end otherwise ------------------------------------------------------------
    /// The server could not be reached, or the connection ended before the answer.
    ConnectFailed,
    /// The server asks for credentials that it did not get, or refuses them.
    Unauthorized,
    /// The server sent something that the protocol does not allow.
    ProtocolError,
    /// The server takes no more requests at the moment (HTTP 429).
    RateLimited,
    /// The upstream is down and none of its lists was ever read.
    UpstreamDown,
    /// The call was cancelled before its answer.
    Cancelled,
    /// The call took longer than the gateway lets one take.
    CallCeiling,
    /// The server asks the client for input. The client sends the call once more.
    InputRequired,
    /// The server asks for input that the client does not give.
    InputNotGiven,
    /// The server goes on with the call as a task.
    TaskBegun,
    /// The gateway panicked on the call; its log says where.
    Panicked,
    /// The gateway failed on the call.
    InternalError,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
