//! A list of 301 tools that 60 rules decide, for clients in 700 groups: the processor time of it, and how much longer the calls of
//! other clients take beside it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{HeaderValue, Uri};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::aims::Aim;
use crate::child::{Child, Scratch};
use crate::client::{self, Client, Era};
use crate::hostile::Row;
use crate::load::{Load, Measured, Payload, slice};
use crate::options::Options;
use crate::procfs::tree_cpu_seconds;
use crate::system::{Running, System};
use crate::{gateway, issuer, upstream};

pub const TOOLS: usize = 301;
pub const RULES: usize = 60;
pub const GROUPS: usize = 700;
/// How many clients list the tools, each in other groups, and how often each does it again.
const CLIENTS: usize = 20;
const AGAIN: u32 = 10;
/// How many of them list the tools beside the calls of others, and how long they wait after each list.
const LISTERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(20);
/// The load of the others.
const LOAD: Load = Load { size: 1024, connections: 8, payload: Payload::Plain };
/// The most processor time of the first list of a client, and of each further one, in milliseconds.
const FIRST_MS: f64 = 50.0;
const AGAIN_MS: f64 = 5.0;
/// How many times longer than beside the same lists without rules the p99 of others is at most.
const AIM: f64 = 1.5;

/// The results of the measurement.
#[derive(Serialize)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub aims: Vec<Aim>,
    errors: usize,
}

impl Outcome {
    /// The number of calls of others that failed.
    pub fn errors(&self) -> usize {
        self.errors
    }
}

/// Measures lists of a gateway with rules, and calls in turn beside them and beside those of one without rules.
#[expect(clippy::too_many_lines, reason = "one measurement, from the start of its gateways to its table")]
pub async fn run(options: &Options) -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("ruled-lists")?, Era::Legacy);
    let (_good, good) = upstream::start(era)?;
    let (_many, many) = upstream::start_with_tools(era, TOOLS)?;
    let upstreams = [gateway::upstream_manifest(&good, era), gateway::named_upstream_manifest("many", &many, era)];
    let start = async |name: &str, rules: Option<&Value>| {
        let manifests = gateway::with_tokens(rules)? + &upstreams.join("---");
        let file = scratch.write(name, &manifests)?;
        let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), &file)?;
        let authorization = Some(issuer::authorization()?);
        let find =
            async |tool| client::wait_for_tool_as(&endpoint, era, tool, Some(&process), authorization.as_ref()).await;
        let tool = find("echo").await?;
        find("tool_0001").await?;
        Ok::<_, anyhow::Error>(Running {
            system: System::Authorized,
            era,
            endpoint,
            authorization,
            tool,
            process: Some(process),
        })
    };
    let names: Vec<_> = (1..=RULES).map(|at| format!("many__tool_{at:04}")).collect();
    let rules = names.iter().enumerate().map(|(at, name)| {
        let when = format!("identity.groups.exists(g, g == 'group-{at}') && tool.name == '{name}'");
        json!({"name": format!("rule-{at}"), "effect": "Allow", "when": when})
    });
    let of_others = json!({"name": "others", "effect": "Allow", "when": "'staff' in identity.groups"});
    let rules: Vec<_> = [of_others].into_iter().chain(rules).collect();
    let rules = json!({"rules": rules});
    let (ruled, plain) = (start("ruled.yaml", Some(&rules)).await?, start("plain.yaml", None).await?);
    let mut aims = lists(&ruled, &clients(0)?).await?;
    let (mut beside_plain, mut beside_ruled) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds() {
        eprintln!("lists that rules decide: round {round} of {}", options.rounds());
        let clients = clients(round)?;
        beside_plain.push(beside(&plain, &clients, options.slice()).await?);
        beside_ruled.push(beside(&ruled, &clients, options.slice()).await?);
    }
    let errors = beside_plain.iter().chain(&beside_ruled).flat_map(|m| m.errors.values()).sum();
    let rows = [Row::of("without rules", &beside_plain)?, Row::of("with rules", &beside_ruled)?];
    let what = "p99 of others beside lists with rules, over that beside lists without".to_owned();
    aims.push(Aim { what, found: rows[1].p99_us / rows[0].p99_us, aim: AIM, at_least: false });
    Ok(Outcome { rows: rows.into(), aims, errors })
}

/// Returns what the clients of a round send as `Authorization`. Each is in other groups, and in most of those that rules name.
fn clients(round: u32) -> Result<Vec<HeaderValue>> {
    let client = |number: usize| {
        let own = format!("own-{round}-{number}");
        let groups: Vec<_> = (number..GROUPS).map(|at| format!("group-{at}")).chain([own]).collect();
        issuer::authorization_of(&format!("client-{number}"), &groups)
    };
    (0..CLIENTS).map(client).collect()
}

/// Has each client list the tools once, then again. Returns how much processor time a list takes.
async fn lists(gateway: &Running, clients: &[HeaderValue]) -> Result<Vec<Aim>> {
    let process = gateway.process.as_ref().map(Child::id);
    let cpu = || process.and_then(tree_cpu_seconds).context("the gateway's processor time cannot be read");
    let mut open = Vec::new();
    for client in clients {
        open.push(Client::open_as(&gateway.endpoint, Era::Modern, Some(client)).await?);
    }
    let began = cpu()?;
    for client in &mut open {
        list(client).await?;
    }
    let after_first = cpu()?;
    for _ in 0..AGAIN {
        for client in &mut open {
            ensure!(list(client).await? > 0, "a client sees no tools");
        }
    }
    let after_all = cpu()?;
    let of = |what: &str, seconds: f64, lists: f64, aim| Aim {
        what: what.to_owned(),
        found: seconds * 1e3 / lists,
        aim,
        at_least: false,
    };
    let count = clients.len() as f64;
    Ok(vec![
        of("processor time of a client's first list, in ms", after_first - began, count, FIRST_MS),
        of("processor time of a further list, in ms", after_all - after_first, count * f64::from(AGAIN), AGAIN_MS),
    ])
}

/// Returns how many tools are on the first page.
async fn list(client: &mut Client) -> Result<usize> {
    let result = client.request("tools/list", json!({})).await?;
    Ok(result["tools"].as_array().map_or(0, Vec::len))
}

/// Measures calls of others beside clients that list the tools.
async fn beside(gateway: &Running, clients: &[HeaderValue], time: Duration) -> Result<Measured> {
    let mut listers = JoinSet::new();
    for at in 0..LISTERS {
        let own: Vec<_> = clients.iter().skip(at).step_by(LISTERS).cloned().collect();
        listers.spawn(keep_listing(gateway.endpoint.clone(), own));
    }
    let measured = slice(gateway, LOAD, time).await;
    listers.shutdown().await;
    measured
}

async fn keep_listing(endpoint: Uri, clients: Vec<HeaderValue>) {
    for authorization in clients.iter().cycle() {
        if let Ok(mut client) = Client::open_as(&endpoint, Era::Modern, Some(authorization)).await {
            let _ = list(&mut client).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
