//! Identifiers of objects: kind, namespace and name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A namespaced name: identifies an object among those of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct ObjectKey {
    /// The namespace. A manifest on disk that does not set one is in `default`.
    pub namespace: String,
    /// The name, unique in the namespace among objects of the same kind.
    pub name: String,
}

impl ObjectKey {
    /// Creates the key `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The kinds of objects that users write. A Problem can be about an object of any of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Kind {
    /// A gateway: its listeners, its limits, and which objects it selects.
    MCPGateway,
    /// An MCP server.
    MCPUpstream,
    /// The code that entries of chains run.
    Plugin,
    /// An ordered list of plugins, and the calls that they run on.
    PluginChain,
    /// A pipeline of tools and typed plugins.
    ToolPipeline,
    /// A restriction: calls that come from a part of a document can use only the tools of one upstream.
    SectionBinding,
    /// Values that must not appear in plans, status or logs.
    Secret,
    /// Plain values, which can include the source code of plugins.
    ConfigMap,
    /// A namespace. Selectors can match its labels.
    Namespace,
}

impl Kind {
    /// Returns the kind as a manifest writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MCPGateway => "MCPGateway",
            Self::MCPUpstream => "MCPUpstream",
            Self::Plugin => "Plugin",
            Self::PluginChain => "PluginChain",
            Self::ToolPipeline => "ToolPipeline",
            Self::SectionBinding => "SectionBinding",
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::Namespace => "Namespace",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind and the key of an object. Together they identify it among all objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct ObjectId {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace and name of the object.
    #[serde(flatten)]
    pub key: ObjectKey,
}

impl ObjectId {
    /// Creates an id from a kind and a key.
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}
