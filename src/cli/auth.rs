//! The commands `hawsepipe auth check` and `hawsepipe auth refusals`.

use std::io::Read;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admin::list;
use super::args::{AuthArgs, AuthCheckArgs, AuthCommand, ShowArgs};
use super::explain::{access, access_code};
use super::formats::ResultFormat;
use super::output::{column, harmless, print_line, print_list, say, text, wide};
use super::problem_line::line;
use super::validate::directory;
use crate::domain::identity::Identity;
use crate::domain::method::Method;
use crate::domain::plan::Plan;
use crate::domain::ports::{Authenticate, Credential, Secrets, Unproved};
use crate::engine::plan::api_keys::methods;
use crate::engine::views::asked_access::AskedCall;
use crate::engine::views::explain::{Explanation, explain_plan};
use crate::identity::Tokens;
use crate::source::CompiledManifests;

/// The longest credential that is read from the standard input, in bytes. A gateway reads no longer ones.
const MAX_INPUT: u64 = 1 << 16;

pub async fn auth(args: AuthArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        AuthCommand::Check(args) => check(args).await,
        AuthCommand::Refusals(args) => refusals(args).await,
    }
}

async fn refusals(args: ShowArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.admin, "/api/v1/refusals", &[], usize::MAX).await?;
    let columns = [
        column("LAST", |r| time(&r["last"], 1)),
        column("COUNT", |r| text(&r["count"])),
        column("LISTENER", |r| text(&r["listener"])),
        column("REASON", |r| text(&r["reason"])),
        column("ISSUER", |r| text(&r["issuer"])),
        column("AUDIENCE", |r| text(&r["audience"])),
        column("ADDRESS", |r| text(&r["address"])),
        wide("FIRST", |r| time(&r["first"], 1)),
        wide("EXP", |r| time(&r["found"]["exp"], 1000)),
        wide("KID", |r| text(&r["found"]["kid"])),
        wide("ACCEPTED ISS", |r| text(&r["accepted"]["iss"])),
        wide("ACCEPTED AUD", |r| text(&r["accepted"]["aud"])),
        wide("ACCEPTED EXP", |r| time(&r["accepted"]["exp"], 1000)),
        wide("ACCEPTED KID", |r| text(&r["accepted"]["kid"])),
    ];
    print_list(args.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a time, of which the value is in units of this many milliseconds; empty if there is none.
fn time(value: &Value, unit: i64) -> String {
    let millis = value.as_i64().and_then(|value| value.checked_mul(unit));
    millis.and_then(|millis| Timestamp::from_millisecond(millis).ok()).map(|time| time.to_string()).unwrap_or_default()
}

async fn check(args: AuthCheckArgs) -> anyhow::Result<ExitCode> {
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
    let Identity { method, subject, issuer, groups, scopes, claims, .. } = &*identity;
    let mut checked = json!({
        "accepted": true, "method": method, "subject": subject, "issuer": issuer, "groups": groups, "scopes": scopes, "claims": claims,
    });
    let of = if issuer.is_empty() { String::new() } else { format!(" of {issuer}") };
    let mut lines = vec![format!("{subject} ({}{of})", method.as_str())];
    let named = [("groups", groups), ("scopes", scopes)].into_iter().filter(|(_, names)| !names.is_empty());
    lines.extend(named.map(|(name, names)| format!("  {name}: {}", names.join(", "))));
    lines.extend(claims.iter().map(|(name, value)| format!("  claim {name}: {value}")));
    let Some(tool) = &args.tool else {
        print(args.output, &checked, &lines)?;
        return Ok(ExitCode::SUCCESS);
    };
    let call = AskedCall::read(args.arguments.clone(), args.annotations.as_deref()).map_err(anyhow::Error::msg)?;
    let asked = Some(call.by(&identity));
    let explained =
        explain_plan(plan, &problems, &secrets, tool, Method::CallTool, asked).map_err(anyhow::Error::msg)?;
    let code = add_explained(tool, explained, &mut checked, &mut lines);
    print(args.output, &checked, &lines)?;
    Ok(code)
}

/// Adds what the rules mean for a call of the tool to the output, as JSON and as text. Returns the exit code.
fn add_explained(tool: &str, explained: Explanation, checked: &mut Value, lines: &mut Vec<String>) -> ExitCode {
    let allowed = explained.access.as_ref().map_or(Some(true), |access| access.allowed);
    let code = access_code(explained.withheld.is_some(), allowed);
    checked["tool"] = json!(explained.tool);
    checked["withheld"] = json!(explained.withheld);
    checked["access"] = json!(explained.access);
    lines.extend(explained.withheld.map(|why| format!("clients do not get {tool}: {why}")));
    lines.extend(match explained.access {
        Some(explained) => access(&json!(explained)),
        None => vec!["allowed: the gateway has no rules".to_owned()],
    });
    code
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
        Unproved::Rejected(_, why) => format!("the credential is not accepted: {why}"),
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
