//! A peer for comparison, which also proxies MCP: fastmcp's proxy.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use http::Uri;

use crate::child::{self, Child};

/// Starts the proxy in front of `upstream`.
pub fn start(python: &Path, upstream: &Uri) -> Result<(Child, Uri)> {
    let port = child::free_port()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/gateway/peer.py");
    let mut command = Command::new(python);
    command.arg(script).arg(port.to_string()).arg(upstream.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    Ok((Child::start("fastmcp's proxy", &mut command)?, child::endpoint(port)?))
}
