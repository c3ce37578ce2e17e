//! The command `hawsepipe auth check`.

use std::io::Read;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{AuthArgs, AuthCommand};
use super::explain::access;
use super::formats::ResultFormat;
use super::output::{harmless, print_line, say};
use super::validate::{directory, line};
use crate::domain::identity::Identity;
use crate::domain::method::Method;
use crate::domain::plan::Plan;
use crate::domain::ports::{Authenticate, Credential, Secrets, Unproved};
use crate::engine::plan::api_keys::methods;
use crate::engine::views::explain::explain_plan;
use crate::identity::Tokens;
use crate::source::CompiledManifests;

/// The longest credential that is read from the standard input, in bytes. A gateway reads no longer ones.
const MAX_INPUT: u64 = 1 << 16;

pub async fn auth(args: AuthArgs) -> anyhow::Result<ExitCode> {
    let AuthCommand::Check(args) = args.command;
    let sent = args.token.as_ref().or(args.api_key.as_ref()).map(|value| read(value)).transpose()?;
    let CompiledManifests { plan, problems, secrets, located, .. } =
        directory(args.source.files, args.source.options)?.read(None).await?;
    // What is not accepted has no effect here, as in a gateway.
    located.iter().filter(|located| located.problem.is_error()).for_each(|located| say(&line(located)));
    let credential = sent.as_deref().map(|sent| match args.api_key {
        Some(_) => Credential::ApiKey(sent),
        None => Credential::Bearer(sent),
    });
    let identity = match identity(&plan, &secrets, credential).await {
        Ok(identity) => identity,
        Err(why) => {
            print(args.output, &json!({"accepted": false, "error": why}), std::slice::from_ref(&why))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let Identity { method, subject, groups, scopes, .. } = &*identity;
    let mut checked =
        json!({"accepted": true, "method": method.as_str(), "subject": subject, "groups": groups, "scopes": scopes});
    let mut lines = vec![format!("{subject} ({})", method.as_str())];
    let named = [("groups", groups), ("scopes", scopes)].into_iter().filter(|(_, names)| !names.is_empty());
    lines.extend(named.map(|(name, names)| format!("  {name}: {}", names.join(", "))));
    let mut allowed = None;
    if let Some(tool) = &args.tool {
        let explained = explain_plan(plan, &problems, &secrets, tool, Method::CallTool, Some(&identity));
        let explained = explained.map_err(anyhow::Error::msg)?;
        allowed = explained.access.as_ref().and_then(|access| access.allowed);
        checked["tool"] = json!(explained.tool);
        checked["withheld"] = json!(explained.withheld);
        checked["access"] = json!(explained.access);
        lines.extend(explained.withheld.map(|why| format!("clients do not get {tool}: {why}")));
        lines.extend(match explained.access {
            Some(explained) => access(&json!(explained)),
            None => vec!["allowed: the gateway has no rules".to_owned()],
        });
    }
    print(args.output, &checked, &lines)?;
    Ok(if allowed == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns a credential of the command line, or of the standard input for `-`.
fn read(value: &str) -> anyhow::Result<String> {
    if value != "-" {
        return Ok(value.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().take(MAX_INPUT).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Returns the identity that a credential proves to a gateway with this plan, or why it proves none.
async fn identity(plan: &Plan, secrets: &impl Secrets, sent: Option<Credential<'_>>) -> Result<Arc<Identity>, String> {
    let (methods, problems) = methods(plan, secrets);
    problems.iter().for_each(|problem| say(&problem.to_string()));
    let gateway = &plan.gateway;
    let Some(credential) = sent.filter(|_| gateway.authenticates()) else {
        return match (gateway.serves_anonymous(), gateway.authenticates()) {
            (true, _) => Ok(Identity::anonymous()),
            (false, true) => Err("the gateway needs a credential: name one with --token or --api-key".to_owned()),
            (false, false) => Err("the gateway accepts no credentials, and no anonymous clients".to_owned()),
        };
    };
    Tokens::new(None).prove(&methods, credential, Ipv4Addr::LOCALHOST.into()).await.map_err(|unproved| match unproved {
        Unproved::Rejected(why) => format!("the credential is not accepted: {why}"),
        Unproved::Unavailable(why) => format!("the credential cannot be checked: {why}"),
    })
}

fn print(output: ResultFormat, checked: &Value, lines: &[String]) -> anyhow::Result<()> {
    match output {
        ResultFormat::Text => lines.iter().try_for_each(|line| print_line(&harmless(line))),
        ResultFormat::Json => print_line(&serde_json::to_string_pretty(checked)?),
        ResultFormat::Yaml => print_line(serde_saphyr::to_string(checked)?.trim_end()),
    }
}
