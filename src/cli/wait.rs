//! `hawsepipe wait`: returns when everything that was written before is in force.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::admin::{NoAnswer, get_within};
use super::args::WaitArgs;
use super::output::{print_line, say};
use super::status::{problem_line, short};

/// How long to wait before a gateway that does not answer is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits for the edits of before.
pub async fn wait(args: WaitArgs) -> anyhow::Result<ExitCode> {
    let deadline = Instant::now() + Duration::from_secs(args.admin.timeout);
    let status = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match get_within(&args.admin, "/api/v1/status?settled=true", left).await {
            Ok(status) => break status,
            // It may be about to start.
            Err(error) if error.is::<NoAnswer>() && left > AGAIN => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    };
    let problems: Vec<_> = status["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().for_each(|problem| say(&problem_line(problem)));
    let errors = problems.iter().filter(|problem| problem["level"] == "error").count();
    print_line(&format!("revision {} is in force", short(&status["revision"])))?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
