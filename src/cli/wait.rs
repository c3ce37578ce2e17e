//! `hawsepipe wait`: waits until all earlier edits of manifests and plugins are in force.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::admin::{NoAnswer, get_within};
use super::args::WaitArgs;
use super::output::{print_line, say};
use super::status::{problem_line, short};

/// The pause before another request to a gateway that does not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits until all earlier edits are in force, and prints the Problems of the plan.
pub async fn wait(args: WaitArgs) -> anyhow::Result<ExitCode> {
    let deadline = Instant::now() + Duration::from_secs(args.admin.timeout);
    let status = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match get_within(&args.admin, "/api/v1/status?settled=true", left).await {
            Ok(status) => break status,
            // The gateway may be starting.
            Err(error) if error.is::<NoAnswer>() && left > AGAIN => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    };
    let problems: Vec<_> = status["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().for_each(|problem| say(&problem_line(problem)));
    let errors = problems.iter().filter(|problem| problem["level"] == "error").count();
    let except = match errors {
        0 => "",
        1 => ", without what the error above is about",
        _ => ", without what the errors above are about",
    };
    print_line(&format!("revision {} is in force{except}", short(&status["revision"])))?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
