//! What is measured: a system, and one that runs.

use clap::ValueEnum;
use http::{HeaderValue, Uri};
use serde::Serialize;

use crate::child::Child;
use crate::client::Era;

/// A path from the client to the upstream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Nothing in between
    Direct,
    /// A bare hop: the least that a gateway over HTTP can do
    Hop,
    /// The gateway, without a plugin
    Gateway,
    /// The gateway with one warm plugin in the response phase
    OneModule,
    /// The gateway with three such plugins in a chain
    ThreeModules,
    /// The gateway with one plugin that starts a process for each call
    OneOnce,
    /// The gateway with a history in a SQLite file, without a plugin
    Stored,
    /// The same with an audit trail that each call waits for
    Audited,
    /// The gateway with arguments and answers, redacted, in its history
    Redacted,
    /// The gateway as users run it, with a line in the log for each call, without a plugin
    Logged,
    /// The gateway with JSON Web Tokens and ten rules, without a plugin
    Authorized,
    /// fastmcp's proxy
    Fastmcp,
    /// Another gateway binary, without a plugin
    Baseline,
    /// That other binary with one warm plugin
    BaselineModule,
}

impl System {
    /// Returns the name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hop => "bare hop",
            Self::Gateway => "gateway, no plugin",
            Self::OneModule => "gateway, 1 Module",
            Self::ThreeModules => "gateway, 3 Modules",
            Self::OneOnce => "gateway, 1 Once",
            Self::Stored => "gateway, SQLite store",
            Self::Audited => "gateway, audit Required",
            Self::Redacted => "gateway, redacted payloads",
            Self::Logged => "gateway, lines of calls",
            Self::Authorized => "gateway, token and 10 rules",
            Self::Fastmcp => "fastmcp proxy",
            Self::Baseline => "baseline, no plugin",
            Self::BaselineModule => "baseline, 1 Module",
        }
    }

    /// Whether the system is also measured in the modern era.
    pub fn in_modern_row(self) -> bool {
        matches!(self, Self::Direct | Self::Hop | Self::Gateway)
    }
}

/// A running system.
pub struct Running {
    pub system: System,
    pub era: Era,
    pub endpoint: Uri,
    /// The value of `Authorization` that its clients send.
    pub authorization: Option<HeaderValue>,
    /// The name of the tool `echo` at this endpoint.
    pub tool: String,
    /// The process between client and upstream, if there is one.
    pub process: Option<Child>,
}
