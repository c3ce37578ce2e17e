//! Pipelines: names, references, and forms that are kept.

use super::*;
use crate::domain::plan::{Restrictions, Revoked};
use crate::domain::reason::Reason;

/// Returns inputs with a gateway that takes everything, and in the namespaces `a` and `b` the plugin `p` of type phase.
fn two_tenants() -> Inputs {
    let mut inputs = empty();
    let gateway = declare(&mut inputs);
    for takes in [&mut gateway.upstreams, &mut gateway.pipelines, &mut gateway.plugins, &mut gateway.sections] {
        takes.namespaces = Namespaces::All;
    }
    for name in ["a/p", "b/p"] {
        add_phase(&mut inputs, name);
    }
    inputs
}

fn pipeline_of<'a>(inputs: &'a mut Inputs, name: &str) -> &'a mut PipelineInput {
    inputs.pipelines.iter_mut().find(|input| input.plan.key == key(name)).unwrap()
}

fn bad_glob(input: &mut PipelineInput) {
    pipeline_plan(&mut input.plan).include = vec!["[".into()];
}

/// Returns the pipelines and upstreams of a plan: the kind, the object, the tool of a pipeline, and why its calls are refused.
fn served(plan: &Plan) -> Vec<String> {
    let forms = plan.upstreams.iter().map(|form| {
        let tool = form.pipeline().map(|pipeline| format!(" {}", pipeline.tool_name())).unwrap_or_default();
        let why = form.refusing.as_ref().map(|refusal| format!(" {}", refusal.reason)).unwrap_or_default();
        format!("{} {}{tool}{why}", form.kind(), form.key)
    });
    forms.collect()
}

fn invalidate(inputs: &mut Inputs, kind: Kind, name: &str) {
    match kind {
        Kind::MCPUpstream => inputs.upstreams.retain(|input| input.plan.key != key(name)),
        Kind::Plugin => inputs.plugins.retain(|input| input.key != key(name)),
        _ => inputs.pipelines.retain(|input| input.plan.key != key(name)),
    }
    inputs.invalid.push(invalid(kind, name));
}

fn shared_upstream(name: &str) -> UpstreamInput {
    UpstreamInput { share_with: Some(Namespaces::All), ..upstream(name) }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of pairs of kinds")]
fn a_mistake_of_one_gives_its_name_to_no_other() {
    type Change = fn(&mut Inputs);
    let add: [(&str, Change, Change); 4] = [
        // The kinds of the two objects, the one that has the name, and the one that asks for it.
        (
            "two tools",
            |inputs| inputs.pipelines.push(pipeline("a/one", "sum", &["p"])),
            |inputs| inputs.pipelines.insert(0, pipeline("b/two", "sum", &["p"])),
        ),
        (
            "two pipelines",
            |inputs| inputs.pipelines.push(pipeline("a/one", "sum", &["p"])),
            |inputs| inputs.pipelines.insert(0, pipeline("b/one", "other", &["p"])),
        ),
        (
            "a pipeline and a server",
            |inputs| inputs.pipelines.push(pipeline("a/one", "sum", &["p"])),
            |inputs| inputs.upstreams.push(shared_upstream("b/one")),
        ),
        (
            "two servers",
            |inputs| inputs.upstreams.push(shared_upstream("a/one")),
            |inputs| inputs.upstreams.insert(0, shared_upstream("b/one")),
        ),
    ];
    for (what, owner, other) in add {
        let mut inputs = two_tenants();
        owner(&mut inputs);
        let first = check(&inputs, None, &[]);
        let has = served(&first);
        // Whether the other one comes at the same time or later, and whatever is wrong with the owner.
        other(&mut inputs);
        let mistakes: [Change; 4] = [
            |_| {},
            |inputs| {
                inputs.pipelines.iter_mut().filter(|it| it.plan.key.namespace == "a").for_each(bad_glob);
                inputs.upstreams.iter_mut().filter(|it| it.plan.key.namespace == "a").for_each(|it| {
                    it.plan.include = vec!["[".into()];
                });
            },
            |inputs| invalidate(inputs, Kind::ToolPipeline, "a/one"),
            |inputs| invalidate(inputs, Kind::MCPUpstream, "a/one"),
        ];
        for (index, mistake) in mistakes.iter().enumerate() {
            let mut wrong = inputs.clone();
            mistake(&mut wrong);
            let is_there = wrong.invalid.is_empty() || has[0].starts_with(wrong.invalid[0].id.kind.as_str());
            let (plan, problems) = compile(&wrong, Some(&first));
            if is_there {
                assert_eq!(served(&plan), has, "{what}, mistake {index}: {problems:?}");
                let conflicts = problems.iter().filter(|problem| problem.reason == Reason::NameConflict);
                let losers: Vec<_> =
                    conflicts.map(|problem| problem.object.as_ref().unwrap().key.to_string()).collect();
                assert!(losers.len() == 1 && losers[0].starts_with("b/"), "{what}, mistake {index}: {losers:?}");
                assert_eq!(compile(&wrong, Some(&plan)).0.revision, plan.revision, "{what}: it stays so");
            }
        }
        // A deleted object frees its name.
        inputs.pipelines.retain(|it| it.plan.key.namespace == "b");
        inputs.upstreams.retain(|it| it.plan.key.namespace == "b");
        let after = served(&check(&inputs, Some(&first), &[]));
        assert!(after.len() == 1 && after[0].contains(" b/"), "{what}: {after:?}");
    }
}

#[test]
fn an_edit_that_asks_for_the_name_of_another_leaves_the_last_form_in_force() {
    let mut inputs = two_tenants();
    inputs.pipelines = vec![pipeline("a/one", "sum", &["p"]), pipeline("b/two", "avg", &["p"])];
    let first = check(&inputs, None, &[]);
    inputs.pipelines[0] = pipeline("a/one", "avg", &["p"]);
    let told = ["NameConflict ToolPipeline a/one spec.tool.name"];
    assert_eq!(check(&inputs, Some(&first), &told).revision, first.revision);
    // A new one does not get the name that the edit would free.
    inputs.pipelines.insert(0, pipeline("b/three", "sum", &["p"]));
    let told = ["NameConflict ToolPipeline a/one spec.tool.name", "NameConflict ToolPipeline b/three spec.tool.name"];
    assert_eq!(check(&inputs, Some(&first), &told).revision, first.revision);
    // Names can be exchanged.
    inputs.pipelines = vec![pipeline("a/one", "avg", &["p"]), pipeline("b/two", "sum", &["p"])];
    assert_eq!(served(&check(&inputs, Some(&first), &[])), ["ToolPipeline a/one avg", "ToolPipeline b/two sum"]);
}

#[test]
fn a_kept_form_stays_at_its_place() {
    let mut inputs = two_tenants();
    inputs.pipelines = ["one", "two", "three"].map(|name| pipeline(&format!("a/{name}"), name, &["p"])).into();
    inputs.upstreams = vec![shared_upstream("a/up"), shared_upstream("b/down")];
    let first = check(&inputs, None, &[]);
    invalidate(&mut inputs, Kind::ToolPipeline, "a/one");
    invalidate(&mut inputs, Kind::MCPUpstream, "a/up");
    assert_eq!(check(&inputs, Some(&first), &[]).revision, first.revision);
}

/// Compiles the edited inputs after those with a pipeline `a/one`. Returns the plans before and after.
fn edited(edit: impl FnOnce(&mut Inputs), told: &[&str]) -> [Plan; 2] {
    let mut inputs = two_tenants();
    plugin_of(&mut inputs, "b/p").share_with = Some(Namespaces::All);
    add_phase(&mut inputs, "a/prompts");
    plugin_of(&mut inputs, "a/prompts").kind = PluginKind::PromptProvider;
    gateway(&mut inputs).plan.models = vec![model("fast")];
    let mut made = pipeline("a/one", "sum", &["p", "b/p"]);
    let plan = pipeline_plan(&mut made.plan);
    plan.agents[0].model_role = Some("fast".into());
    plan.prompt_providers = vec![step("a/prompts", PluginKind::PromptProvider)];
    inputs.pipelines.push(made);
    let first = check(&inputs, None, &[]);
    edit(&mut inputs);
    let second = check(&inputs, Some(&first), told);
    let again = check(&inputs, Some(&second), told);
    assert_eq!(again.revision, second.revision, "it stays so");
    [first, second]
}

#[test]
fn an_edit_that_names_what_does_not_exist_leaves_the_last_form_in_force() {
    type Edit = fn(&mut PipelinePlan);
    let agent = "spec.declared.agents[0]";
    let edits: [(Edit, &str, &str); 4] = [
        (|plan| plan.agents[0].plugin.key = key("a/none"), "PluginNotFound", ".plugin"),
        (|plan| plan.agents[0].plugin.key = key("a/prompts"), "WrongType", ".plugin"),
        (|plan| plan.agents[0].model_role = Some("slow".into()), "ModelRoleNotFound", ".modelTier"),
        (|plan| plan.prompt_providers[0].key = key("a/none"), "PluginNotFound", "spec.declared.promptProviders[0]"),
    ];
    for (edit, reason, field) in edits {
        let field = if field.starts_with('.') { format!("{agent}{field}") } else { field.to_owned() };
        let told = format!("{reason} ToolPipeline a/one {field}");
        let [first, second] = edited(|inputs| edit(pipeline_plan(&mut inputs.pipelines[0].plan)), &[&told]);
        assert_eq!(second.revision, first.revision, "{told}");
    }
}

#[test]
fn what_was_taken_away_refuses_each_call_with_the_reason_and_the_tool_stays() {
    type Edit = fn(&mut Inputs);
    let agents = "spec.declared.agents";
    let cases: [(Edit, &str, String); 5] = [
        (|inputs| remove_plugin(inputs, "a/p"), "PluginNotFound", format!("{agents}[0].plugin")),
        (|inputs| plugin_of(inputs, "b/p").share_with = None, "RefNotPermitted", format!("{agents}[1].plugin")),
        (|inputs| plugin_of(inputs, "a/p").enabled = false, "EntryUnavailable", format!("{agents}[0].plugin")),
        (|inputs| gateway(inputs).plan.models.clear(), "ModelRoleNotFound", format!("{agents}[0].modelTier")),
        (|inputs| remove_plugin(inputs, "a/prompts"), "PluginNotFound", "spec.declared.promptProviders[0]".into()),
    ];
    for (edit, reason, field) in cases {
        let told = format!("{reason} ToolPipeline a/one {field}");
        let [_, second] = edited(edit, &[&told]);
        assert_eq!(served(&second), [format!("ToolPipeline a/one sum {reason}")]);
        let why = second.upstreams[0].refusing.as_ref().unwrap();
        assert!(why.message.starts_with(&format!("{field}: ")), "{}", why.message);
        // The same if the object is invalid too, and it runs again once everything is back.
        let invalid = |inputs: &mut Inputs| {
            edit(inputs);
            invalidate(inputs, Kind::ToolPipeline, "a/one");
        };
        let [first, third] = edited(invalid, &[&told]);
        assert_eq!(served(&third), served(&second), "{told}");
        let mut inputs = two_tenants();
        plugin_of(&mut inputs, "b/p").share_with = Some(Namespaces::All);
        add_phase(&mut inputs, "a/prompts");
        plugin_of(&mut inputs, "a/prompts").kind = PluginKind::PromptProvider;
        gateway(&mut inputs).plan.models = vec![model("fast")];
        inputs.invalid.push(super::invalid(Kind::ToolPipeline, "a/one"));
        assert_eq!(check(&inputs, Some(&third), &[]).revision, first.revision, "{told}");
    }
}

#[test]
fn one_that_was_never_accepted_is_offered_and_refuses_its_calls() {
    let mut inputs = two_tenants();
    inputs.pipelines.push(pipeline("a/one", "sum", &["none"]));
    let told = ["PluginNotFound ToolPipeline a/one spec.declared.agents[0].plugin"];
    let plan = check(&inputs, None, &told);
    assert_eq!(served(&plan), ["ToolPipeline a/one sum PluginNotFound"]);
    bad_glob(pipeline_of(&mut inputs, "a/one"));
    let told = ["InvalidPattern ToolPipeline a/one spec.tools.include[0]", told[0]];
    assert_eq!(served(&check(&inputs, None, &told)), ["ToolPipeline a/one sum InvalidPattern"]);
}

#[test]
fn an_upstream_keeps_its_last_form_if_its_new_plugin_does_not_exist() {
    let mut inputs = two_tenants();
    inputs.upstreams.push(shared_upstream("a/kit"));
    let first = check(&inputs, None, &[]);
    let provided = |by: &str| TransportPlan::Plugin(step(by, PluginKind::ToolProvider).into());
    inputs.upstreams[0].plan.transport = provided("a/none");
    let told = ["PluginNotFound MCPUpstream a/kit spec.plugin"];
    assert_eq!(check(&inputs, Some(&first), &told).revision, first.revision);
    add_phase(&mut inputs, "a/kit");
    plugin_of(&mut inputs, "a/kit").kind = PluginKind::ToolProvider;
    know(&mut inputs, "a/kit", "index.js", &["getTools", "execute"]);
    inputs.upstreams[0].plan.transport = provided("a/kit");
    let second = check(&inputs, Some(&first), &[]);
    remove_plugin(&mut inputs, "a/kit");
    let third = check(&inputs, Some(&second), &told);
    assert_eq!(served(&third), ["MCPUpstream a/kit PluginNotFound"]);
    // A mistake in the rest of it changes nothing of that.
    inputs.upstreams[0].plan.include = vec!["[".into()];
    let told = ["InvalidPattern MCPUpstream a/kit spec.tools.include[0]", told[0]];
    assert_eq!(served(&check(&inputs, Some(&third), &told)), ["MCPUpstream a/kit PluginNotFound"]);
}

#[test]
fn an_invalid_plugin_of_another_namespace_gives_itself_to_nobody_new() {
    let mut inputs = two_tenants();
    plugin_of(&mut inputs, "b/p").share_with = Some(Namespaces::All);
    inputs.pipelines.push(pipeline("a/one", "sum", &["b/p"]));
    let first = check(&inputs, None, &[]);
    invalidate(&mut inputs, Kind::Plugin, "b/p");
    assert_eq!(check(&inputs, Some(&first), &[]).revision, first.revision);
    inputs.pipelines.push(pipeline("a/two", "avg", &["b/p"]));
    let told = ["RefNotPermitted ToolPipeline a/two spec.declared.agents[0].plugin"];
    let plan = check(&inputs, Some(&first), &told);
    assert_eq!(served(&plan), ["ToolPipeline a/one sum", "ToolPipeline a/two avg RefNotPermitted"]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "an object of each kind")]
fn no_kept_form_is_served_once_the_gateway_takes_its_namespace_no_more() {
    let mut inputs = two_tenants();
    inputs.pipelines.push(pipeline("a/one", "sum", &["p"]));
    inputs.pipelines.push(pipeline("b/two", "avg", &["p"]));
    inputs.upstreams = vec![shared_upstream("a/up"), shared_upstream("b/down")];
    inputs.sections = ["a/up", "b/down"].map(section).into();
    inputs.chains =
        ["a/guard", "b/guard"].map(|name| ChainInput { gateways: vec![key("gw")], ..chain(name, &["p"]) }).into();
    gateway(&mut inputs).chains.namespaces = Namespaces::All;
    for plugin in ["a/p", "b/p"] {
        plugin_of(&mut inputs, plugin).kind = PluginKind::Middleware;
        know(&mut inputs, plugin, "index.js", &["default"]);
    }
    inputs.chains.iter_mut().for_each(|chain| chain.entries[0].plugin.namespace.clone_from(&chain.key.namespace));
    inputs.pipelines.iter_mut().for_each(|it| pipeline_plan(&mut it.plan).agents[0].plugin.key = key("lib/p"));
    add_phase(&mut inputs, "lib/p");
    plugin_of(&mut inputs, "lib/p").share_with = Some(Namespaces::All);
    let first = check(&inputs, None, &[]);
    let all = |plan: &Plan| {
        let chains = plan.chains.iter().map(|chain| &chain.key);
        let sections = plan.sections.iter().map(|section| &section.key);
        let forms = plan.upstreams.iter().map(|form| &form.key);
        let mut namespaces: Vec<_> = forms.chain(chains).chain(sections).map(|key| key.namespace.clone()).collect();
        namespaces.sort();
        namespaces
    };
    assert_eq!(all(&first), [["a"; 4], ["b"; 4]].concat());
    let mut wrong = inputs.clone();
    (wrong.pipelines, wrong.upstreams, wrong.sections, wrong.chains) = Default::default();
    for namespace in ["a", "b"] {
        let names = [("one", Kind::ToolPipeline), ("two", Kind::ToolPipeline), ("up", Kind::MCPUpstream)];
        let more = [("down", Kind::MCPUpstream), ("up", Kind::SectionBinding), ("down", Kind::SectionBinding)];
        for (name, kind) in names.into_iter().chain(more).chain([("guard", Kind::PluginChain)]) {
            wrong.invalid.push(invalid(kind, &format!("{namespace}/{name}")));
        }
    }
    assert_eq!(compile(&wrong, Some(&first)).0.revision, first.revision);
    let GatewayInput { upstreams, chains, pipelines, sections, .. } = gateway(&mut wrong);
    for takes in [upstreams, chains, pipelines, sections] {
        takes.namespaces = only(&["b"]);
    }
    assert_eq!(all(&compile(&wrong, Some(&first)).0), ["b"; 4]);
    // Labels say nothing: the mistake can be in them.
    let GatewayInput { chains, sections, .. } = gateway(&mut wrong);
    for takes in [chains, sections] {
        takes.selector = labelled("tier", "1");
    }
    assert_eq!(all(&compile(&wrong, Some(&first)).0), ["b"; 4]);
    wrong.invalid.iter_mut().for_each(|object| object.labels = Some(Default::default()));
    assert_eq!(all(&compile(&wrong, Some(&first)).0), ["b"; 4]);
}

#[test]
fn restrictions_take_of_pipelines_what_was_taken_away_and_nothing_else() {
    let mut inputs = two_tenants();
    plugin_of(&mut inputs, "b/p").share_with = Some(Namespaces::All);
    inputs.pipelines.push(PipelineInput { gateways: vec![key("gw")], ..pipeline("a/one", "sum", &["p", "b/p"]) });
    inputs.pipelines.push(pipeline("a/two", "avg", &["p"]));
    let first = check(&inputs, None, &[]);
    assert_eq!(restrictions(&inputs, &first), Restrictions::default());
    type Edit = fn(&mut Inputs);
    let cases: [(Edit, &[&str]); 6] = [
        (|inputs| invalidate(inputs, Kind::ToolPipeline, "a/one"), &["one sum", "two avg"]),
        (bad_edit, &["one sum", "two avg"]),
        (|inputs| drop(inputs.pipelines.remove(0)), &["two avg"]),
        (|inputs| inputs.pipelines[0].gateways = vec![key("other")], &["two avg"]),
        (|inputs| remove_plugin(inputs, "a/p"), &["one sum PluginNotFound", "two avg PluginNotFound"]),
        (|inputs| plugin_of(inputs, "b/p").share_with = None, &["one sum RefNotPermitted", "two avg"]),
    ];
    for (edit, expected) in cases {
        let mut inputs = inputs.clone();
        edit(&mut inputs);
        let expected: Vec<_> = expected.iter().map(|it| format!("ToolPipeline a/{it}")).collect();
        assert_eq!(served(&obeying(&first, &inputs)), expected);
    }
    inputs.pipelines.clear();
    let gone = ["a/one", "a/two"].map(|name| Revoked::Upstream(key(name)));
    assert_eq!(restrictions(&inputs, &first).revoked, gone);
}

fn bad_edit(inputs: &mut Inputs) {
    inputs.pipelines.iter_mut().for_each(bad_glob);
}

#[test]
fn a_plugin_that_one_chain_lost_stays_for_the_pipelines_that_run_it() {
    let mut inputs = two_tenants();
    plugin_of(&mut inputs, "b/p").share_with = Some(Namespaces::All);
    inputs.pipelines = vec![pipeline("a/one", "sum", &["b/p"]), pipeline("b/two", "avg", &["p"])];
    let first = check(&inputs, None, &[]);
    plugin_of(&mut inputs, "b/p").share_with = None;
    let plan = obeying(&first, &inputs);
    assert_eq!(served(&plan), ["ToolPipeline a/one sum RefNotPermitted", "ToolPipeline b/two avg"]);
    assert!(plan.plugin(&key("b/p")).is_some());
}
