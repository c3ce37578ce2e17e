//! The command `hawsepipe validate`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;

use super::args::{OptionArgs, ValidateArgs};
use super::certificates::Certificates;
use super::formats::ListFormat;
use super::output::{Colour, column, paint, print_line, print_list, say, text, wide};
use super::problem_line::{is_consequence, line};
use super::programs::missing;
use super::wiring::workers;
use crate::config::access::authorize::{Rule, Rules};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{ChainPlan, EntryPlan, Plan, Runtime};
use crate::domain::plugin::{Mode, Role};
use crate::domain::ports::{LinkedPlugin, Loading, RunPlugin};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::plan::listener_certificates::listener_certificates;
use crate::engine::views::explain::link_plugins;
use crate::node::{Inspector, Launcher, find_node, hide_memory};
use crate::source::{CompiledManifests, Directory, DirectorySettings, Located, unread_folders};

/// Number of plugins that are loaded at the same time.
const AT_ONCE: usize = 4;

/// Checks manifests and prints their Problems. Unless `--no-load` is set, starts the plugins in the sandbox, to find
/// out whether they can be loaded. Upstreams are never started.
pub async fn validate(args: ValidateArgs) -> anyhow::Result<ExitCode> {
    if !args.no_load {
        hide_memory().context("cannot hide this program's memory from plugins")?;
    }
    if let Some(unread) = unread_folders(&args.paths) {
        say(&unread);
    }
    let mut directory = directory(args.paths, args.options)?;
    let compiled = directory.read(None).await?;
    let objects = compiled.objects;
    let mut located = all_problems(&directory, compiled, !args.no_load).await?;
    // Those of one file together, in the order of its lines.
    located.sort_by(|a, b| (&a.file, a.place).cmp(&(&b.file, b.place)));
    let errors = located.iter().filter(|l| l.problem.is_error() && !is_consequence(l)).count();
    print(args.output, &located, errors, objects)?;
    Ok(if errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes a [`Directory`] that reads the manifests named on the command line.
pub fn directory(paths: Vec<std::path::PathBuf>, options: OptionArgs) -> anyhow::Result<Directory<Inspector>> {
    let settings =
        DirectorySettings { paths, gateway: options.gateway, secrets_dir: options.secrets_dir, node: options.node };
    Ok(Directory::new(settings, Inspector::new(Launcher::current()?)))
}

/// Returns the Problems of `compiled`, together with those about missing programs, linking and, if `loads` is set,
/// loading plugins.
async fn all_problems(
    directory: &Directory<Inspector>,
    compiled: CompiledManifests,
    loads: bool,
) -> anyhow::Result<Vec<Located>> {
    let CompiledManifests { plan, secrets, mut located, .. } = compiled;
    let node = &plan.gateway.runtime.node_executable;
    let uses_plugins = plan.used_plugins().next().is_some();
    let no_node = find_node(node).await.err();
    let loads = loads && no_node.is_none();
    if let Some(error) = no_node.filter(|_| uses_plugins) {
        let gateway = ObjectId::new(Kind::MCPGateway, plan.gateway.key.clone());
        let field = "spec.plugins.nodeExecutable";
        located.push(directory.locate(Problem::error(Reason::NotLoaded, gateway, field, error.to_string())));
    }
    let warnings = missing(&plan).into_iter().chain(unnamed_methods(&plan)).chain(unnamed_items(&plan));
    located.extend(warnings.map(|problem| directory.locate(problem)));
    let certificates = listener_certificates(&plan.gateway, &secrets);
    let unusable = Certificates::default().follow(&plan.gateway, &certificates);
    located.extend(unusable.into_iter().map(|problem| directory.locate(problem)));
    let runtime = plan.gateway.runtime.clone();
    let (plugins, mut problems) = link_plugins(plan, &secrets);
    if loads && !plugins.is_empty() {
        problems.extend(load_problems(&plugins, &runtime).await?);
    }
    located.extend(problems.into_iter().map(|problem| directory.locate(problem)));
    Ok(located)
}

/// Warns about each chain with a Guard that names no methods. A gateway warns only once a server lists prompts or
/// resources, which such a Guard does not see.
fn unnamed_methods(plan: &Plan) -> impl Iterator<Item = Problem> {
    let guards = |chain: &&ChainPlan| {
        let is_guard = |entry: &EntryPlan| entry.enabled && entry.mode == Mode::Enforce && entry.role == Role::Guard;
        chain.default_methods && chain.entries.iter().any(|entry| is_guard(entry) && entry.unavailable.is_none())
    };
    plan.chains.iter().filter(guards).map(|chain| {
        let message = "it has a Guard and names no methods, so that the Guard sees tools/call alone, and neither prompts nor \
                       resources: write the methods, such as [tools/call, prompts/get, resources/read] or [tools/call]";
        let object = ObjectId::new(Kind::PluginChain, chain.key.clone());
        Problem::warning(Reason::MethodsNotNamed, object, "spec.methods", message)
    })
}

/// Warns about each rule that allows calls because of their arguments and names no item: it shows all of them in lists.
fn unnamed_items(plan: &Plan) -> Vec<Problem> {
    let rules = plan.gateway.authorization.as_ref().map(Rules::new);
    let rules = rules.iter().flat_map(Rules::all).enumerate();
    let open = rules.filter(|(_, rule)| !rule.plan.denies && rule.reads_call() && !rule.reads_item());
    let warning = |(at, rule): (usize, &Rule)| {
        let message = format!(
            "the rule {} allows calls because of what they contain and names no tool, upstream or label: lists show every tool \
             to the clients that it is for. Add a condition such as upstream.name == \"files\"",
            rule.plan.name
        );
        let object = ObjectId::new(Kind::MCPGateway, plan.gateway.key.clone());
        Problem::warning(Reason::ItemsNotNamed, object, format!("spec.authorization.rules[{at}].when"), message)
    };
    open.map(warning).collect()
}

/// Loads each plugin in a worker, as a gateway does. Returns a Problem for each plugin that cannot be loaded.
async fn load_problems(plugins: &[Arc<LinkedPlugin>], runtime: &Runtime) -> anyhow::Result<Vec<Problem>> {
    let (workers, ..) = workers()?;
    let mut problems = Vec::new();
    for few in plugins.chunks(AT_ONCE) {
        workers.prepare(few, runtime).await;
        for plugin in few {
            let mut seen = 0;
            let loading = loop {
                match workers.loading(plugin) {
                    Loading::Underway => seen = workers.loads(seen).await,
                    ended => break ended,
                }
            };
            if let Loading::Failed { failure, .. } = loading {
                let object = ObjectId::new(Kind::Plugin, plugin.plan.key.clone());
                problems.push(Problem::error(failure.reason, object, "spec.source", failure.message));
            }
        }
        workers.retire(&[]);
    }
    workers.shutdown().await;
    Ok(problems)
}

fn print(format: ListFormat, located: &[Located], errors: usize, objects: usize) -> anyhow::Result<()> {
    if format == ListFormat::Table {
        for problem in located {
            print_line(&line(problem))?;
        }
        let warnings = located.iter().filter(|l| !l.problem.is_error()).count();
        let [told, warned, read] = [(errors, "error"), (warnings, "warning"), (objects, "object")]
            .map(|(count, word)| format!("{count} {}", plural(count, word)));
        let verdict = format!("{told}, {warned} in {read}");
        return print_line(&if errors == 0 { paint(Colour::Green, &verdict) } else { paint(Colour::Red, &verdict) });
    }
    let items: Vec<_> = located.iter().map(|l| json!(l)).collect();
    let columns = [
        column("LEVEL", |p| text(&p["level"])),
        column("FILE", |p| format!("{}:{}:{}", text(&p["file"]), text(&p["line"]), text(&p["column"]))),
        column("KIND", |p| text(&p["object"]["kind"])),
        column("OBJECT", |p| format!("{}/{}", text(&p["object"]["namespace"]), text(&p["object"]["name"]))),
        column("FIELD", |p| text(&p["field"])),
        column("REASON", |p| text(&p["reason"])),
        wide("MESSAGE", |p| text(&p["message"])),
    ];
    print_list(format, &json!({"items": items}), &items, &columns)
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
