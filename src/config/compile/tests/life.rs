//! The life of objects of every kind in two namespaces, over edits, restarts and revisions: what was in force stays if an edit is
//! a mistake, no name changes hands, and restricting a plan by its own inputs changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::random::Dice;
use super::*;
use crate::domain::plan::Takes;

/// How many edits a history has.
const EDITS: u64 = 40;
/// How many earlier plans are restricted by the newest inputs.
const REVISIONS: usize = 3;

const NAMESPACES: [&str; 2] = ["a", "b"];
/// Upstreams and pipelines have these names.
const NAMES: [&str; 2] = ["x", "y"];
const TOOLS: [&str; 2] = ["s", "t"];
const GATEWAY: &str = "default/gw";

/// Returns the objects that there can be: the kind and the name.
fn slots() -> Vec<(Kind, String)> {
    let mut slots = vec![(Kind::MCPGateway, GATEWAY.to_owned())];
    for namespace in NAMESPACES {
        for name in NAMES {
            slots.push((Kind::MCPUpstream, format!("{namespace}/{name}")));
            slots.push((Kind::ToolPipeline, format!("{namespace}/{name}")));
        }
        for plugin in ["phase", "tools", "guard"] {
            slots.push((Kind::Plugin, format!("{namespace}/{plugin}")));
        }
        slots.push((Kind::PluginChain, format!("{namespace}/chain")));
        slots.push((Kind::SectionBinding, format!("{namespace}/section")));
    }
    slots
}

/// An object as it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// As this number determines.
    Valid(u64),
    /// The same, with a fault that only compiling finds.
    Faulty(u64, usize),
    /// It violates its schema. The number is that of the last other version.
    Invalid(u64),
}

impl Written {
    fn version(self) -> u64 {
        let (Self::Valid(version) | Self::Faulty(version, _) | Self::Invalid(version)) = self;
        version
    }

    fn is_mistake(self) -> bool {
        !matches!(self, Self::Valid(_))
    }
}

/// All objects, oldest first.
#[derive(Clone, Debug, Default)]
struct World(Vec<((Kind, String), Written)>);

impl World {
    fn get(&self, kind: Kind, key: &ObjectKey) -> Option<Written> {
        self.0.iter().find(|((of, name), _)| *of == kind && *name == key.to_string()).map(|(_, written)| *written)
    }

    /// Changes an object. Returns it, and how it was written and is written now, if it is there.
    fn edit(&mut self, dice: &mut Dice) -> ((Kind, String), [Option<Written>; 2]) {
        let slots = slots();
        let slot = slots[dice.roll(slots.len())].clone();
        let new = Written::Valid(dice.roll(1 << 20) as u64);
        let Some(place) = self.0.iter().position(|(other, _)| *other == slot) else {
            let place = if dice.hit(2) { 0 } else { self.0.len() };
            self.0.insert(place, (slot.clone(), new));
            return (slot, [None, Some(new)]);
        };
        let before = self.0[place].1;
        let version = before.version();
        let written = match dice.roll(8) {
            0 if slot.0 != Kind::MCPGateway => {
                self.0.remove(place);
                return (slot, [Some(before), None]);
            }
            1..=2 => Written::Invalid(version),
            3..=5 if slot.0 != Kind::MCPGateway => Written::Faulty(version, dice.roll(4)),
            _ => new,
        };
        self.0[place].1 = written;
        (slot, [Some(before), Some(written)])
    }

    fn inputs(&self) -> Inputs {
        let mut inputs = empty();
        for ((kind, name), written) in &self.0 {
            let (version, fault) = match *written {
                Written::Valid(version) => (version, None),
                Written::Faulty(version, fault) => (version, Some(fault)),
                Written::Invalid(_) => {
                    inputs.invalid.push(invalid(*kind, name));
                    continue;
                }
            };
            let dice = Dice(version);
            match kind {
                Kind::MCPGateway => put_gateway(&mut inputs, dice),
                Kind::MCPUpstream => inputs.upstreams.push(made_upstream(name, dice, fault)),
                Kind::ToolPipeline => inputs.pipelines.push(made_pipeline(name, dice, fault)),
                Kind::Plugin => put_plugin(&mut inputs, name, dice, fault),
                Kind::PluginChain => inputs.chains.push(made_chain(name, dice, fault)),
                _ => inputs.sections.push(made_section(name, dice, fault)),
            }
        }
        inputs
    }
}

fn other(namespace: &str) -> &str {
    NAMESPACES[usize::from(namespace == NAMESPACES[0])]
}

fn shares(dice: &mut Dice) -> Option<Namespaces> {
    (!dice.hit(4)).then_some(Namespaces::All)
}

fn put_gateway(inputs: &mut Inputs, mut dice: Dice) {
    let gateway = declare(inputs);
    let GatewayInput { upstreams, chains, pipelines, sections, plugins, .. } = gateway;
    for takes in [upstreams, chains, pipelines, sections, plugins] {
        takes.namespaces = if dice.hit(5) { only(&[dice.pick(&NAMESPACES)]) } else { Namespaces::All };
    }
    gateway.plan.models = if dice.hit(4) { Vec::new() } else { vec![model("fast")] };
    gateway.plan.required = if dice.hit(8) { vec![key("a/chain")] } else { Vec::new() };
}

fn provider(name: &str) -> TransportPlan {
    TransportPlan::Plugin(step(name, PluginKind::ToolProvider).into())
}

fn made_upstream(name: &str, mut dice: Dice, fault: Option<usize>) -> UpstreamInput {
    let mut made = UpstreamInput { share_with: Some(Namespaces::All), ..upstream(name) };
    made.plan.labels.insert("version".into(), dice.roll(100).to_string());
    if dice.hit(3) {
        made.plan.transport = provider(&format!("{}/tools", key(name).namespace));
    }
    match fault {
        Some(0) => made.plan.transport = provider("a/none"),
        Some(_) => made.plan.include = vec!["[".into()],
        None => {}
    }
    made
}

fn made_pipeline(name: &str, mut dice: Dice, fault: Option<usize>) -> PipelineInput {
    let namespace = key(name).namespace;
    let foreign = format!("{}/phase", other(&namespace));
    let plugins = if dice.hit(3) { vec!["phase", &foreign] } else { vec!["phase"] };
    let mut made = pipeline(name, dice.pick(&TOOLS), &plugins);
    made.plan.labels.insert("version".into(), dice.roll(100).to_string());
    let plan = pipeline_plan(&mut made.plan);
    plan.agents[0].model_role = dice.hit(3).then(|| "fast".into());
    match fault {
        Some(0) => plan.include = vec!["[".into()],
        Some(1) => plan.agents[0].plugin.key = key("a/none"),
        Some(2) => plan.agents[0].model_role = Some("slow".into()),
        Some(_) => plan.definition = plan.definition.replace(r#""object""#, r#""objekt""#),
        None => {}
    }
    made
}

fn put_plugin(inputs: &mut Inputs, name: &str, mut dice: Dice, fault: Option<usize>) {
    let share_with = shares(&mut dice);
    add_phase(inputs, name);
    know(inputs, name, "index.js", &["default", "execute", "getTools"]);
    let plugin = plugin_of(inputs, name);
    plugin.kind = match &*key(name).name {
        "phase" => PluginKind::Phase,
        "tools" => PluginKind::ToolProvider,
        _ => PluginKind::Middleware,
    };
    (plugin.share_with, plugin.order) = (share_with, i64::try_from(dice.roll(100)).unwrap());
    match fault {
        Some(0) => plugin.sha256 = Some("0".repeat(64)),
        Some(_) => break_code(inputs, name),
        None => {}
    }
}

fn made_chain(name: &str, mut dice: Dice, fault: Option<usize>) -> ChainInput {
    let namespace = key(name).namespace;
    let own = format!("{namespace}/guard");
    let foreign = format!("{}/guard", other(&namespace));
    let plugins = if dice.hit(3) { vec![&*own, &*foreign] } else { vec![&*own] };
    let mut made = ChainInput { gateways: vec![key(GATEWAY)], ..chain(name, &plugins) };
    made.order = i32::try_from(dice.roll(100)).unwrap();
    match fault {
        Some(0) => made.include = vec!["[".into()],
        Some(1) => made.entries[0].when = Some("(".into()),
        Some(_) => made.entries.push(entry("a/none")),
        None => {}
    }
    made
}

fn made_section(name: &str, mut dice: Dice, fault: Option<usize>) -> SectionInput {
    let mut made = section(name);
    made.plan.upstream = key(&format!("{}/{}", dice.pick(&NAMESPACES), dice.pick(&NAMES)));
    made.plan.inherits = dice.hit(2);
    if fault.is_some() {
        made.plan.glob = "[".into();
    }
    made
}

/// Whether an object was in force, and nothing that it refers to was missing.
fn in_force(plan: &Plan, (kind, name): &(Kind, String)) -> bool {
    let key = key(name);
    match kind {
        Kind::MCPGateway => plan.gateway.declared && plan.gateway.refusing.is_none(),
        Kind::Plugin => plan.plugin(&key).is_some(),
        Kind::PluginChain => plan.chain(&key).is_some_and(|chain| {
            chain.refusing.is_none() && chain.entries.iter().all(|entry| entry.unavailable.is_none())
        }),
        Kind::SectionBinding => plan.sections.iter().any(|it| it.key == key && it.refusing.is_none()),
        _ => plan.upstreams.iter().any(|it| it.key == key && it.kind() == *kind && it.refusing.is_none()),
    }
}

/// Returns the names in a plan, each with its owner.
fn names_of(plan: &Plan) -> BTreeMap<String, (Kind, ObjectKey)> {
    let mut names = BTreeMap::new();
    for form in &plan.upstreams {
        let owner = (form.kind(), form.key.clone());
        let tool = form.pipeline().map(|pipeline| format!("tool {}", pipeline.tool_name()));
        for name in tool.into_iter().chain([form.key.name.clone()]) {
            assert_eq!(names.insert(name.clone(), owner.clone()), None, "{name} has two owners");
        }
    }
    names
}

/// Whether an object that has a name in the plan `before` still asks for it in `plan`, and the gateway takes it.
fn asks_for(
    name: &str,
    (kind, key): &(Kind, ObjectKey),
    before: &Plan,
    plan: &Plan,
    world: &World,
    inputs: &Inputs,
) -> bool {
    let Some(written) = world.get(*kind, key) else { return false };
    let takes = plan.takes.as_ref();
    let takes = takes.map(|takes| if *kind == Kind::ToolPipeline { &takes.pipelines } else { &takes.upstreams });
    let is_taken = takes.is_none_or(|takes| takes_namespace(takes, &key.namespace));
    let may_rename = match written {
        Written::Valid(_) => true,
        // Of two forms whose calls are refused, the newer one is in force.
        Written::Faulty(..) => !in_force(before, &(*kind, key.to_string())),
        Written::Invalid(_) => false,
    };
    let has_other = |input: &PipelineInput| {
        input.plan.key == *key && name != format!("tool {}", input.plan.pipeline().unwrap().tool_name())
    };
    let renames = *kind == Kind::ToolPipeline && name.starts_with("tool ") && inputs.pipelines.iter().any(has_other);
    is_taken && !(may_rename && renames)
}

fn takes_namespace(takes: &Takes, namespace: &str) -> bool {
    match &takes.namespaces {
        Namespaces::Names(names) => names.iter().any(|name| name == namespace),
        _ => true,
    }
}

fn text(plan: &Plan) -> String {
    serde_json::to_string(plan).unwrap()
}

/// Returns the plan without its digests and the words of refusals.
fn effects(plan: &Plan) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| name != "revision" && name != "message");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(plan).unwrap();
    strip(&mut value);
    value
}

/// Asserts what an earlier plan is after the restrictions of the newest objects: objects that are there are as they were, unless a
/// plugin was taken from them, and others are gone.
fn judge_revision(revision: &Plan, world: &World, inputs: &Inputs) {
    let restricted = obeying(revision, inputs);
    let may_use = |namespace: &str, plugin: &ObjectKey| match world.get(Kind::Plugin, plugin) {
        None => false,
        Some(Written::Invalid(_)) => true,
        Some(_) => {
            let input = inputs.plugins.iter().find(|input| input.key == *plugin).unwrap();
            namespace == plugin.namespace || input.share_with.is_some()
        }
    };
    for form in &revision.upstreams {
        let after = restricted.upstreams.iter().find(|after| after.key == form.key);
        if world.get(form.kind(), &form.key).is_none() {
            assert!(after.is_none(), "{} was deleted", form.key);
            continue;
        }
        let after = after.unwrap_or_else(|| panic!("{} {} is gone", form.kind(), form.key));
        let mut available = form.plugins().filter(|step| step.unavailable.is_none());
        match available.all(|step| may_use(&form.key.namespace, &step.key)) {
            true => assert_eq!(after.refusing, form.refusing, "{}", form.key),
            false => assert!(after.refusing.is_some(), "{} lost a plugin", form.key),
        }
    }
    for (chain, after) in revision.chains.iter().zip(&restricted.chains) {
        for (entry, after) in chain.entries.iter().zip(&after.entries) {
            let is_lost = entry.unavailable.is_none() && !may_use(&chain.key.namespace, &entry.plugin);
            assert_eq!(after.unavailable.is_some(), entry.unavailable.is_some() || is_lost, "{}", chain.key);
        }
    }
    assert_eq!(restricted.chains.len(), revision.chains.len());
    assert_eq!(restricted.sections, revision.sections);
    let run = restricted.upstreams.iter().flat_map(UpstreamPlan::plugins).filter(|step| step.unavailable.is_none());
    assert!(run.into_iter().all(|step| restricted.plugin(&step.key).is_some()), "a step has no plugin");
}

/// Asserts that no form of a namespace is in force that the gateway does not take.
fn judge_takes(plan: &Plan) {
    let Some(takes) = &plan.takes else { return };
    for form in &plan.upstreams {
        let takes = if form.kind() == Kind::ToolPipeline { &takes.pipelines } else { &takes.upstreams };
        assert!(takes_namespace(takes, &form.key.namespace), "{} {}", form.kind(), form.key);
    }
    let required: BTreeSet<_> = plan.gateway.required.iter().collect();
    let mut chains = plan.chains.iter().filter(|chain| !required.contains(&chain.key));
    assert!(chains.all(|chain| takes_namespace(&takes.chains, &chain.key.namespace)));
    assert!(plan.sections.iter().all(|section| takes_namespace(&takes.sections, &section.key.namespace)));
}

#[test]
fn what_is_in_force_stays_no_name_changes_hands_and_a_plans_own_inputs_restrict_nothing() {
    judge_edits(1000);
}

#[test]
#[ignore = "long: make test-long"]
fn the_same_holds_for_ten_thousand_edits() {
    judge_edits(10_000);
}

fn judge_edits(edits: u64) {
    for history in 0..edits.div_ceil(EDITS) {
        let mut dice = Dice(history << 32);
        let mut world = World::default();
        world.0.push(((Kind::MCPGateway, GATEWAY.to_owned()), Written::Valid(1)));
        let mut revisions: Vec<Plan> = Vec::new();
        let mut before = compile(&world.inputs(), None).0;
        for step in 0..EDITS {
            let (slot, [old, new]) = world.edit(&mut dice);
            let inputs = world.inputs();
            let (plan, problems) = compile(&inputs, Some(&before));
            let context = || format!("history {history}, step {step}: {slot:?} is {new:?}\n{problems:#?}\n{world:#?}");

            // Once an object can be read again, it is known whom it is shared with.
            let is_readable_again = matches!((old, new), (Some(Written::Invalid(_)), Some(Written::Faulty(..))));
            if new.is_some_and(Written::is_mistake) && in_force(&before, &slot) && !is_readable_again {
                assert_eq!(effects(&plan), effects(&before), "a mistake changes something: {}", context());
            }
            let names = names_of(&plan);
            for (name, owner) in names_of(&before) {
                let is_kept = names.get(&name) == Some(&owner);
                let asks = asks_for(&name, &owner, &before, &plan, &world, &inputs);
                assert!(is_kept || !asks, "{name} of {owner:?}: {}", context());
            }
            judge_takes(&plan);
            let restarted: Plan = serde_json::from_str(&text(&plan)).unwrap();
            assert_eq!(text(&compile(&inputs, Some(&restarted)).0), text(&plan), "a restart: {}", context());
            assert_eq!(text(&obeying(&plan, &inputs)), text(&plan), "its own inputs: {}", context());
            revisions.iter().for_each(|revision| judge_revision(revision, &world, &inputs));

            revisions.push(plan.clone());
            revisions.drain(..revisions.len().saturating_sub(REVISIONS));
            before = plan;
        }
    }
}
