//! `hawsepipe stop`, `resume` and `cancel`: the stop switch of a running gateway.

use std::process::ExitCode;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::admin::{ApiError, encode, not_admin, post};
use super::args::{AdminArgs, CancelArgs, ResumeArgs, StopArgs};
use super::output::{print_line, text};

pub async fn stop(args: StopArgs) -> anyhow::Result<ExitCode> {
    let body = json!({"cancel": args.cancel}).to_string();
    switch(&args.admin, args.session.as_deref(), "stop", body).await
}

pub async fn resume(args: ResumeArgs) -> anyhow::Result<ExitCode> {
    switch(&args.admin, args.session.as_deref(), "resume", String::new()).await
}

/// Stops or resumes a session, or else the gateway.
async fn switch(admin: &AdminArgs, session: Option<&str>, verb: &str, body: String) -> anyhow::Result<ExitCode> {
    let Some(session) = session else {
        let state = parsed(&post(admin, &format!("/api/v1/{verb}"), body).await?)?;
        let is_stopped = state["stopped"].as_bool().ok_or_else(|| not_admin(admin, "stopped"))?;
        let by = text(&state["stoppedBy"]);
        print_line(&match is_stopped {
            true => format!("the gateway is stopped ({by}): new calls are refused"),
            false => "the gateway takes calls".to_owned(),
        })?;
        // A gateway that spec.stopped stops is not resumed by this command.
        let is_done = is_stopped == (verb == "stop");
        return Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    post(admin, &format!("/api/v1/sessions/{}/{verb}", encode(session)), body).await?;
    print_line(&match verb {
        "stop" => format!("session {session} is stopped: its new calls are refused"),
        _ => format!("session {session} can make calls"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Cancels an invocation, or else the call with this id.
pub async fn cancel(args: CancelArgs) -> anyhow::Result<ExitCode> {
    let id = encode(&args.id);
    match post(&args.admin, &format!("/api/v1/invocations/{id}/cancel"), String::new()).await {
        Ok(invocation) => {
            let invocation = parsed(&invocation)?;
            let status = invocation["status"].as_str().ok_or_else(|| not_admin(&args.admin, "status"))?;
            print_line(&format!("invocation {}: {status}", args.id))?;
        }
        Err(error) if error.downcast_ref::<ApiError>().is_some_and(|error| error.reason == "InvocationNotFound") => {
            post(&args.admin, &format!("/api/v1/calls/{id}/cancel"), String::new()).await?;
            print_line(&format!("call {}: cancelled", args.id))?;
        }
        Err(error) => return Err(error),
    }
    Ok(ExitCode::SUCCESS)
}

fn parsed(answer: &RawValue) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(answer.get())?)
}
