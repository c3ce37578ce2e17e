//! `hawsepipe wait`: waits until all earlier edits of manifests and plugins are in force.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::admin::{NoAnswer, get, get_within, not_admin};
use super::args::WaitArgs;
use super::output::{print_line, say, text};
use super::status::{problem_line, short, upstream_state};

/// The pause before another request to a gateway that does not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits until all earlier edits are in force, and prints the Problems of the plan.
pub async fn wait(args: WaitArgs) -> anyhow::Result<ExitCode> {
    let deadline = Instant::now() + Duration::from_secs(args.admin.timeout);
    let mut status = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match get_within(&args.admin, "/api/v1/status?settled=true", left).await {
            Ok(status) if status["revision"].is_null() => return Err(not_admin(&args.admin, "revision")),
            Ok(status) => break status,
            // The gateway may be starting.
            Err(error) if error.is::<NoAnswer>() && left > AGAIN => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    };
    let mut waiting = Vec::new();
    if args.connected {
        (status, waiting) = connected(&args, deadline).await?;
    }
    let problems: Vec<_> = status["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().for_each(|problem| say(&problem_line(problem)));
    let errors = problems.iter().filter(|problem| problem["level"] == "error").count();
    let except = match errors {
        0 => "",
        1 => ", without what the error above is about",
        _ => ", without what the errors above are about",
    };
    print_line(&format!("revision {} is in force{except}", short(&status["revision"])))?;
    for upstream in &waiting {
        let (name, why) = (text(&upstream["name"]), text(&upstream["error"]));
        say(&format!(
            "not connected to {name} ({}){}{why}",
            upstream_state(upstream),
            if why.is_empty() { "" } else { ": " }
        ));
    }
    Ok(if errors == 0 && waiting.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until the gateway is connected to every enabled upstream, or until `deadline`. Returns the last status, and the upstreams
/// that it is not connected to.
async fn connected(args: &WaitArgs, deadline: Instant) -> anyhow::Result<(Value, Vec<Value>)> {
    loop {
        let status = get(&args.admin, "/api/v1/status").await?;
        let upstreams = status["upstreams"].as_array().into_iter().flatten();
        let waiting: Vec<_> = upstreams.filter(|upstream| !is_connected(upstream)).cloned().collect();
        if waiting.is_empty() || Instant::now() >= deadline {
            return Ok((status, waiting));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether an upstream is connected, rests after it was, or is disabled.
fn is_connected(upstream: &Value) -> bool {
    upstream["enabled"] == false || ["Connected", "Resting"].contains(&&*upstream_state(upstream))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_upstream_that_is_disabled_or_rests_is_not_waited_for() {
        for (upstream, expected) in [
            (json!({"enabled": true, "connectionState": "Connected"}), true),
            (json!({"enabled": true, "connectionState": "Disconnected", "restingSince": 1}), true),
            (json!({"enabled": false, "connectionState": "Disconnected"}), true),
            (json!({"enabled": true, "connectionState": "Connecting"}), false),
            (json!({"enabled": true, "connectionState": "Error", "autoDisabled": true}), false),
        ] {
            assert_eq!(is_connected(&upstream), expected, "{upstream}");
        }
    }
}
