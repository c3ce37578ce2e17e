//! How objects are named.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A namespaced name: how one object of a kind is told from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The namespace; a document on disk that names none is in `default`.
    pub namespace: String,
    /// The name, unique in the namespace among objects of the same kind.
    pub name: String,
}

impl ObjectKey {
    /// A key of these two words.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The kinds that a user writes and a Problem can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A gateway: listeners, limits, what it takes.
    MCPGateway,
    /// An MCP server.
    MCPUpstream,
    /// Code that chains run.
    Plugin,
    /// Plugins in order, on the calls it selects.
    PluginChain,
    /// A pipeline of tools and typed plugins.
    ToolPipeline,
    /// A part of a document tied to one upstream.
    SectionBinding,
    /// Values that are kept from plans, status and logs.
    Secret,
    /// Plain values; plugin sources among them.
    ConfigMap,
    /// Labels of a namespace.
    Namespace,
}

impl Kind {
    /// The kind's word in a manifest.
    pub fn as_str(self) -> &'static str {
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

/// An object by kind and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace and name.
    #[serde(flatten)]
    pub key: ObjectKey,
}

impl ObjectId {
    /// The object of this kind under this key.
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}
