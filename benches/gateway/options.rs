//! The command line.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Parser, Subcommand, ValueEnum};
use http::Uri;

use crate::load::Payload;
use crate::system::System;

/// Measure the gateway against direct calls, a bare hop and fastmcp's proxy.
#[derive(Parser)]
#[command(name = "gateway", args_conflicts_with_subcommands = true)]
pub struct Options {
    /// Measure only these systems (and direct calls and the hop, for comparison), only the edits, or only the plugin
    /// runtime
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Part>,
    /// Measure one round of short slices, which shows that everything works but not how fast it is
    #[arg(long)]
    pub quick: bool,
    /// Rounds, of which each measures everything once; the results are medians over the rounds
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds to measure one slice
    #[arg(long)]
    seconds: Option<f64>,
    /// Concurrent calls, each on its own connection
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64], value_parser = clap::value_parser!(u16).range(1..=256))]
    pub connections: Vec<u16>,
    /// Bytes of text in each call and its answer
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 51200], value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub sizes: Vec<u32>,
    /// The kind of text in each call and its answer
    #[arg(long, value_enum, default_value_t = Payload::Json)]
    pub payload: Payload,
    /// Another gateway binary to compare with, without a plugin and with one Module
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// A Python with the packages of benches/requirements.txt; without it, the peer is not measured
    #[arg(long, env = "HAWSEPIPE_TEST_PYTHON")]
    pub python: Option<PathBuf>,
    /// The flag that `cargo bench` passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// A part that can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A system under the loads of the matrix.
    System(System),
    /// Edits under load.
    Edits,
    /// The plugin runtime, without a gateway.
    Plugins,
    /// A long list of tools.
    Lists,
    /// A list that many rules decide.
    RuledLists,
    /// A hostile upstream beside a good one.
    Hostile,
    /// Streams on which nothing happens.
    Idle,
    /// Pages of a long history.
    History,
    /// Runs of pipelines, and the calls in them.
    Pipelines,
}

static PARTS: LazyLock<Vec<Part>> = LazyLock::new(|| {
    let systems = System::value_variants().iter().map(|system| Part::System(*system));
    systems
        .chain([
            Part::Edits,
            Part::Plugins,
            Part::Lists,
            Part::RuledLists,
            Part::Hostile,
            Part::Idle,
            Part::History,
            Part::Pipelines,
        ])
        .collect()
});

impl ValueEnum for Part {
    fn value_variants<'a>() -> &'a [Self] {
        &PARTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::System(system) => system.to_possible_value(),
            Self::Plugins => {
                Some(PossibleValue::new("plugins").help("The runtime of plugins, without the gateway around it"))
            }
            Self::Lists => Some(PossibleValue::new("lists").help("A list of 1,000 tools of 20 upstreams")),
            Self::RuledLists => {
                Some(PossibleValue::new("ruled-lists").help("A list of 301 tools that 60 rules decide"))
            }
            Self::Hostile => Some(PossibleValue::new("hostile").help("A hostile upstream beside a good one")),
            Self::Idle => Some(PossibleValue::new("idle").help("The memory that 10,000 idle streams take")),
            Self::Pipelines => Some(PossibleValue::new("pipelines").help("Runs of pipelines, and the calls in them")),
            Self::History => Some(PossibleValue::new("history").help("Pages of a history of 1,000,000 calls")),
            Self::Edits => Some(PossibleValue::new("edits").help("A plugin and its chain that are edited under load")),
        }
    }
}

/// The roles in which this program starts itself.
#[derive(Subcommand)]
pub enum Role {
    /// Serve the tools `echo` and `blob`
    #[command(hide = true)]
    ServeUpstream {
        /// Do not support MCP 2026-07-28
        #[arg(long)]
        legacy_only: bool,
        /// List this many other tools instead
        #[arg(long, default_value_t = 0)]
        tools: usize,
    },
    /// Serve tools that hang, answer without end, slowly, or with 64 MiB
    #[command(hide = true)]
    ServeHostile,
    /// Forward calls to an upstream
    #[command(hide = true)]
    ServeHop {
        /// The endpoint of the upstream
        upstream: Uri,
    },
    /// Send back each frame that arrives on standard input, which is a socket
    #[command(hide = true)]
    EchoFrames,
}

impl Options {
    /// Whether this part was requested.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Whether any system was requested.
    pub fn wants_matrix(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| matches!(part, Part::System(_)))
    }

    /// The number of rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).clamp(1, 20)
    }

    /// How long one slice is measured.
    pub fn slice(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.quick { 0.4 } else { 1.5 });
        Duration::from_secs_f64(seconds.clamp(0.1, 60.0))
    }
}
