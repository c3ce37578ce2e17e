//! Any inputs result in a plan, and an entry that cannot run fails closed.

use super::*;
use crate::domain::plugin::FailurePolicy;

/// A small pseudorandom generator (splitmix64), so that the same seed yields the same folders.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    pub(super) fn hit(&mut self, one_in: usize) -> bool {
        self.roll(one_in) == 0
    }

    pub(super) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const NAMESPACES: [&str; 3] = ["default", "team", "lib"];
const GLOBS: [&str; 5] = ["*", "a*", "[", "{a,b}", "\\"];

fn namespaces(dice: &mut Dice) -> Namespaces {
    match dice.roll(4) {
        0 => Namespaces::Same,
        1 => only(&[dice.pick(&NAMESPACES)]),
        2 => Namespaces::Selector(labelled("kubernetes.io/metadata.name", dice.pick(&NAMESPACES))),
        _ => Namespaces::All,
    }
}

fn globs(dice: &mut Dice) -> Vec<String> {
    (0..dice.roll(4) / 2).map(|_| dice.pick(&GLOBS).to_owned()).collect()
}

fn random_plugin(dice: &mut Dice, inputs: &mut Inputs, name: &str) {
    let (exports, share_with) = (dice.pick(&["default", "onRequest", "x"]), dice.hit(2).then(|| namespaces(dice)));
    let filter = globs(dice);
    let role = [Role::Guard, Role::Transform, Role::Observe][dice.roll(3)];
    let (enabled, order) = (!dice.hit(6), i64::try_from(dice.roll(3)).unwrap());
    add_plugin(inputs, name, |p| {
        (p.share_with, p.filter_tools, p.role, p.enabled, p.order) = (share_with, filter, role, enabled, order);
    });
    know(inputs, name, "index.js", &[exports]);
    if dice.hit(6) {
        break_code(inputs, name);
    }
}

fn random_chain(dice: &mut Dice, name: &str) -> ChainInput {
    let mut made = chain(name, &[]);
    for _ in 0..dice.roll(4) {
        let mut added = entry(&format!("{}/p{}", dice.pick(&NAMESPACES), dice.roll(2)));
        added.enabled = !dice.hit(5);
        added.when = dice.hit(4).then(|| dice.pick(&["content.size > 1", "(", "nobody"]).to_owned());
        added.config = dice.hit(4).then(|| raw("{}"));
        added.failure_policy = dice.hit(4).then_some([FailurePolicy::Fail, FailurePolicy::Ignore][dice.roll(2)]);
        made.entries.push(added);
    }
    made.phase = [Phase::Request, Phase::Response][dice.roll(2)];
    (made.include, made.exclude) = (globs(dice), globs(dice));
    made.upstreams = dice.hit(2).then(|| UpstreamsInput { names: globs(dice), selector: None });
    made.gateways = if dice.hit(2) { vec![key("gw")] } else { Vec::new() };
    made
}

/// Returns an endless sequence of folders that is determined by `seed`.
pub(crate) fn random_folders(seed: u64) -> impl Iterator<Item = Inputs> {
    let mut dice = Dice(seed);
    std::iter::repeat_with(move || random_folder(&mut dice))
}

fn random_folder(dice: &mut Dice) -> Inputs {
    let mut inputs = empty();
    if !dice.hit(5) {
        let (upstreams, chains) = (namespaces(dice), namespaces(dice));
        let declared = declare(&mut inputs);
        (declared.upstreams.namespaces, declared.chains.namespaces) = (upstreams, chains);
        declared.plan.required = (0..dice.roll(2)).map(|_| key("team/c0")).collect();
    } else if dice.hit(2) {
        inputs.invalid.push(invalid(Kind::MCPGateway, "gw"));
    }
    for namespace in NAMESPACES {
        for index in 0..2 {
            let place = |kind: &str| format!("{namespace}/{kind}{index}");
            match dice.roll(6) {
                0 => inputs.invalid.push(invalid(Kind::MCPUpstream, &place("u"))),
                1 => {}
                _ => {
                    let mut made = upstream(&place("u"));
                    (made.plan.include, made.share_with) = (globs(dice), dice.hit(2).then(|| namespaces(dice)));
                    inputs.upstreams.push(made);
                }
            }
            match dice.roll(6) {
                0 => inputs.invalid.push(invalid(Kind::Plugin, &place("p"))),
                1 => {}
                _ => random_plugin(dice, &mut inputs, &place("p")),
            }
            let made = random_chain(dice, &place("c"));
            match dice.roll(6) {
                0 => {
                    let chain = dice.hit(2).then_some(made);
                    inputs.invalid.push(InvalidObject { chain, ..invalid(Kind::PluginChain, &place("c")) });
                }
                1 => {}
                _ => inputs.chains.push(made),
            }
        }
    }
    inputs
}

/// Asserts what must hold for every plan.
fn judge(plan: &Plan) {
    for chain in &plan.chains {
        assert!(chain.refusing.is_none() || chain.entries.is_empty());
        for entry in &chain.entries {
            let known = plan.plugin(&entry.plugin);
            match (&entry.unavailable, known) {
                (Some(_), _) => assert!(entry.role == Role::Guard),
                (None, Some(known)) => assert!(known.phases.contains(&chain.phase) && entry.role == known.role),
                (None, None) => panic!("{} names nothing and says nothing", chain.key),
            }
            if entry.unavailable.is_some() && entry.written_policy.is_none() {
                assert_eq!(entry.failure_policy, FailurePolicy::Fail);
            }
        }
        let globs = chain.include.iter().chain(&chain.exclude).chain(&chain.upstreams.names);
        assert!(globs.into_iter().all(|glob| globset::Glob::new(glob).is_ok() || chain.upstreams.all), "{}", chain.key);
    }
    assert!(plan.plugins.iter().all(|p| plan.code.contains_key(&p.digest)));
    let required = |key: &ObjectKey| plan.chain(key).is_some_and(|c| c.refusing.is_none());
    assert!(plan.gateway.refusing.is_some() || plan.gateway.required.iter().all(required));
    let mut upstreams: Vec<_> = plan.upstreams.iter().map(|u| &u.key.name).collect();
    upstreams.sort();
    upstreams.dedup();
    assert_eq!(upstreams.len(), plan.upstreams.len());
}

#[test]
fn any_folder_after_any_other_gives_a_plan() {
    let mut dice = Dice(7);
    let mut previous: Option<Plan> = None;
    for round in 0..400 {
        let inputs = random_folder(&mut dice);
        let (plan, _) = compile(&inputs, previous.as_ref());
        judge(&plan);
        let (again, _) = compile(&inputs, Some(&plan));
        assert_eq!(again.revision, plan.revision, "round {round}: compiling again changes nothing");
        previous = (!dice.hit(10)).then_some(plan);
    }
}
