//! The command line of the bridge.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

/// Serve an MCP server that speaks over stdio to clients over Streamable HTTP, inside the server's own container.
#[derive(Debug, Parser)]
#[command(name = "hawsepipe-bridge", version, after_help = EXAMPLES)]
pub(super) struct Program {
    /// Copy this program to a file of mode 0555, and end
    #[arg(long, value_name = "PATH", exclusive = true)]
    pub(super) install: Option<PathBuf>,
    #[command(flatten)]
    pub(super) bridge: Option<BridgeArgs>,
}

/// The part of the examples that both programs show.
const EXAMPLES: &str = "\
Examples:
  hawsepipe-bridge -- npx -y @modelcontextprotocol/server-filesystem /data
  hawsepipe-bridge --listen=127.0.0.1:9000 --session=Shared -- my-mcp-server --verbose
  hawsepipe-bridge --install /hawsepipe/bridge";

/// What the bridge serves, where, and within which bounds.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command's stderr is passed on to the bridge's stderr. GET /healthz answers 200 while the
bridge can serve. The bridge has no authentication: let only gateways reach its port.

Examples:
  hawsepipe bridge --listen=127.0.0.1:8080 -- npx -y @modelcontextprotocol/server-filesystem /data
  hawsepipe bridge --session=Shared --idle-seconds=60 -- my-mcp-server --verbose")]
pub struct BridgeArgs {
    /// Address to listen on: an IP address and a port. Default: [::]:8080, or 0.0.0.0:8080 where there is no IPv6
    #[arg(long, value_name = "IP:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// The path of the MCP endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp", value_parser = path)]
    pub(super) path: String,
    /// PerSession starts a process for each client session; Shared has one process for all
    #[arg(long, value_enum, default_value = "PerSession")]
    pub(super) session: SessionMode,
    /// End a session that has had no request and no open stream for this long. The same holds for the process of
    /// requests without a session
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) idle_seconds: u64,
    /// The maximum number of sessions. Further ones are refused with status 503
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) max_sessions: u32,
    /// The maximum size of a message in bytes, in both directions
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    pub(super) max_message_bytes: u32,
    /// Seconds that calls in flight have to finish after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(super) drain_seconds: u64,
    /// The command of the MCP server, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// How processes belong to sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SessionMode {
    /// A process for each session.
    #[value(name = "PerSession")]
    PerSession,
    /// One process for all sessions.
    #[value(name = "Shared")]
    Shared,
}

fn path(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    match text.starts_with('/') && text.chars().all(is_plain) && text != "/healthz" {
        true => Ok(text.to_owned()),
        false => Err("it must begin with / and have only letters, digits and -._~/, and /healthz is taken".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read_as_pods_have_it() {
        let line = "b --path=/mcp --session=Shared --idle-seconds=60 -- server --session=x";
        let program = Program::try_parse_from(line.split(' ')).unwrap();
        let args = program.bridge.unwrap();
        assert_eq!(
            (args.session, args.idle_seconds, args.command),
            (SessionMode::Shared, 60, vec!["server".into(), "--session=x".into()])
        );
        let install = Program::try_parse_from(["b", "--install", "/x/bridge"]).unwrap();
        assert!(install.bridge.is_none() && install.install.is_some());
        for line in [
            "b",
            "b --",
            "b --path=mcp -- x",
            "b --path=/healthz -- x",
            "b --idle-seconds=0 -- x",
            "b --install x -- y",
        ] {
            assert_eq!(Program::try_parse_from(line.split(' ')).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
