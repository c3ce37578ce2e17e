//! Several invocations that a command runs one after another, and how it prints them.

use std::process::ExitCode;

use serde_json::json;
use serde_json::value::RawValue;

use super::args::AdminArgs;
use super::formats::ResultFormat;
use super::invoked::{Images, Invoked, invoke};
use super::ordered_json;
use super::output::{Colour, harmless, harmless_lines, paint, print, print_line, say, shown};
use crate::domain::raw::{RawObject, to_raw};

/// A call that a command has run.
pub struct Ran {
    /// Where the call is written.
    place: String,
    /// The server, or the tool if no server is named.
    name: String,
    /// The invocation, or why there is none.
    pub invoked: anyhow::Result<Invoked>,
}

impl Ran {
    /// Runs the invocation that has the body `new`, or keeps why there is no body.
    pub async fn run(admin: &AdminArgs, place: String, name: &str, new: anyhow::Result<String>) -> Self {
        let invoked = match new {
            Ok(new) => invoke(admin, new).await,
            Err(error) => Err(error),
        };
        Self { place, name: harmless(name), invoked }
    }

    fn succeeded(&self) -> bool {
        self.invoked.as_ref().is_ok_and(Invoked::succeeded)
    }

    /// Prints the result by its type, or the error, below a line that names the call.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self) -> anyhow::Result<()> {
        let Self { place, name, invoked } = self;
        let (tool, status, duration, text) = match invoked {
            Err(error) => (name.clone(), "error", None, format!("{error:#}")),
            Ok(Invoked { fields, .. }) => {
                let server = fields.server_id.as_deref().unwrap_or(name);
                let tool = harmless(&format!("{server}/{}", fields.tool_name));
                match &fields.result {
                    Some(result) => {
                        let text = shown(result.rendered(Images::Noted)?);
                        (tool, &*fields.status, Some(result.execution_duration), text)
                    }
                    None => (tool, &*fields.status, None, harmless_lines(fields.error())),
                }
            }
        };
        let status = paint(if self.succeeded() { Colour::Green } else { Colour::Red }, status);
        let took = duration.map(|ms| format!(", {ms:.0} ms")).unwrap_or_default();
        print(&format!("{place} {tool}: {status}{took}\n{}\n\n", text.trim_end()))
    }

    fn whole(&self) -> Box<RawValue> {
        match &self.invoked {
            Ok(invoked) => invoked.raw.clone(),
            Err(error) => {
                let error = json!({"message": format!("{error:#}")});
                to_raw(&json!({"place": self.place, "name": self.name, "status": "error", "error": error}))
            }
        }
    }
}

/// Prints all calls, if JSON or YAML is asked for. Returns exit code 1 if one failed.
///
/// # Errors
/// If standard output cannot be written.
pub fn finish(output: ResultFormat, ran: &[Ran]) -> anyhow::Result<ExitCode> {
    let mut whole = RawObject::default();
    whole.set("items", to_raw(&ran.iter().map(Ran::whole).collect::<Vec<_>>()));
    match output {
        ResultFormat::Text => {}
        ResultFormat::Json => print_line(&ordered_json::to_json(&whole.to_raw())?)?,
        ResultFormat::Yaml => print_line(ordered_json::to_yaml(&whole.to_raw())?.trim_end())?,
    }
    let failed = ran.iter().filter(|call| !call.succeeded()).count();
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!("Error: {failed} of {} calls failed", ran.len()));
    Ok(ExitCode::FAILURE)
}
