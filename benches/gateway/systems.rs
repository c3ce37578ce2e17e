//! The systems that are measured, and their processes.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use http::Uri;
use serde::Serialize;

use crate::child::{Child, Scratch};
use crate::client::{self, Era};
use crate::options::{Options, Part};
use crate::{gateway, hop, peer, upstream};

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
            Self::Fastmcp => "fastmcp proxy",
            Self::Baseline => "baseline, no plugin",
            Self::BaselineModule => "baseline, 1 Module",
        }
    }

    fn is_wanted(self, options: &Options) -> bool {
        match self {
            Self::Direct | Self::Hop => true,
            Self::Baseline | Self::BaselineModule => options.baseline.is_some(),
            _ => options.wants(Part::System(self)),
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
    /// The name of the tool `echo` at this endpoint.
    pub tool: String,
    /// The process between client and upstream, if there is one.
    pub process: Option<Child>,
}

/// All processes that were started. Dropping it ends them.
pub struct Systems {
    pub running: Vec<Running>,
    /// The systems that could not be measured, and why.
    pub missing: Vec<(System, String)>,
    // Fields are dropped in order: the upstreams end after the systems that use them.
    _upstreams: Vec<Child>,
    scratch: Scratch,
}

impl Systems {
    /// Starts the upstreams and all requested systems, and waits until each answers.
    pub async fn start(options: &Options) -> Result<Self> {
        let scratch = Scratch::new("matrix")?;
        let mut systems = Self { running: Vec::new(), missing: Vec::new(), _upstreams: Vec::new(), scratch };
        for era in [Era::Legacy, Era::Modern] {
            let (upstream, at) = upstream::start(era)?;
            systems._upstreams.push(upstream);
            for &system in System::value_variants() {
                if system.is_wanted(options) && (era == Era::Legacy || system.in_modern_row()) {
                    systems.add(system, era, &at, options).await?;
                }
            }
        }
        Ok(systems)
    }

    async fn add(&mut self, system: System, era: Era, upstream: &Uri, options: &Options) -> Result<()> {
        let (process, endpoint) = match system {
            System::Direct => (None, upstream.clone()),
            System::Hop => {
                let (child, endpoint) = hop::start(upstream)?;
                (Some(child), endpoint)
            }
            System::Fastmcp => {
                let Some(python) = &options.python else {
                    self.missing.push((system, "no Python environment: run `make bench`".into()));
                    return Ok(());
                };
                let (child, endpoint) = peer::start(python, upstream)?;
                (Some(child), endpoint)
            }
            _ => {
                let baseline = matches!(system, System::Baseline | System::BaselineModule);
                let binary = options.baseline.as_deref().filter(|_| baseline).unwrap_or(Path::new(gateway::BINARY));
                let manifests = gateway::write_manifests(system, era, upstream, &self.scratch)?;
                let (child, endpoint) = gateway::start(binary, &manifests)?;
                (Some(child), endpoint)
            }
        };
        let tool = client::wait_for_tool(&endpoint, era, "echo", process.as_ref()).await?;
        eprintln!("{} ({}) serves {tool} at {endpoint}", system.label(), era.word());
        self.running.push(Running { system, era, endpoint, tool, process });
        Ok(())
    }
}
