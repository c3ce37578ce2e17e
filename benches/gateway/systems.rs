//! The processes of the systems that are measured.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use http::Uri;

use crate::child::{Child, Scratch};
use crate::client::{self, Era};
use crate::options::{Options, Part};
use crate::system::{Running, System};
use crate::{gateway, hop, issuer, peer, upstream};

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
                if is_wanted(system, options) && (era == Era::Legacy || system.in_modern_row()) {
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
                let (child, endpoint) = gateway::start_system(binary, &manifests, system)?;
                (Some(child), endpoint)
            }
        };
        let authorization = matches!(system, System::Authorized).then(issuer::authorization).transpose()?;
        let tool = client::wait_for_tool_as(&endpoint, era, "echo", process.as_ref(), authorization.as_ref()).await?;
        eprintln!("{} ({}) serves {tool} at {endpoint}", system.label(), era.word());
        self.running.push(Running { system, era, endpoint, authorization, tool, process });
        Ok(())
    }
}

fn is_wanted(system: System, options: &Options) -> bool {
    match system {
        System::Direct | System::Hop => true,
        System::Baseline | System::BaselineModule => options.baseline.is_some(),
        _ => options.wants(Part::System(system)),
    }
}
