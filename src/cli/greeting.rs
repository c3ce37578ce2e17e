//! The greeting that `hawsepipe run` prints at a terminal: how to connect a client.

use std::io::IsTerminal;

use super::output::say;
use super::serve::Gateway;

/// Once the tools of the upstreams are known, prints the URL of the MCP endpoint, how much the endpoint serves, and a
/// command that adds the endpoint to a client. Prints nothing if standard error is not a terminal.
pub async fn greet(engine: Gateway, url: String) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let tools = engine.views.tools().await.iter().filter(|tool| tool.name.is_some()).count();
    let status = engine.views.status();
    say(&greeting(&url, status.upstreams.len(), tools, status.chains.len()));
}

fn greeting(url: &str, upstreams: usize, tools: usize, chains: usize) -> String {
    let count = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let served = [count(upstreams, "upstream"), count(tools, "tool"), count(chains, "chain")].join(", ");
    format!("\n  MCP      {url}\n  Serving  {served}\n  Client   claude mcp add --transport http hawsepipe {url}\n")
}

#[cfg(test)]
mod tests {
    use super::greeting;

    #[test]
    fn three_lines_say_where_what_and_how() {
        let said = greeting("http://127.0.0.1:8080/mcp", 2, 17, 1);
        let lines: Vec<_> = said.trim_matches('\n').lines().map(str::trim_start).collect();
        assert_eq!(
            lines,
            [
                "MCP      http://127.0.0.1:8080/mcp",
                "Serving  2 upstreams, 17 tools, 1 chain",
                "Client   claude mcp add --transport http hawsepipe http://127.0.0.1:8080/mcp",
            ]
        );
    }
}
