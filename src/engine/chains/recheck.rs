//! Checks a call that has waited against the newest plan: an answer, a question, a chain, a lock or a step can take long, and
//! meanwhile the gateway can be stopped, a rule can deny the call, and a Guard can come into force.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use super::Chains;
use super::content::Content;
use super::outcome::{CallEnd, Denial, DenialKind};
use super::routed_call::Routed;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::{Refusal, UpstreamPlan};
use crate::domain::plugin::{Phase, Role};
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::upstream::OutMembers;
use crate::engine::access::admission::check_refusing;
use crate::engine::plan::entries::{LinkedChain, LinkedEntry};
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::linked_item::{Selected, select};
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{Caller, Endpoint, Reply};

/// The next effect of a call that has waited.
#[derive(Clone, Copy)]
pub(crate) enum Effect<'a> {
    /// Something is sent to a server: the call, a call of a step, or the client's answers to questions of these methods.
    Send(&'a [Method]),
    /// A question of this method is put to the client.
    Question(Method),
    /// The answer is given to the client, after its chains and these entries, which came into force during the call.
    Answer(&'a [Selected]),
}

impl Effect<'_> {
    /// The methods of the questions that are put, or that can be in what is sent or answered.
    fn questions(&self) -> &[Method] {
        match self {
            Self::Question(asked) => slice::from_ref(asked),
            Self::Send(answered) => answered,
            Self::Answer(_) => ASKED_IN_ROUNDS,
        }
    }
}

/// The questions whose answers can come with the repetition of a call, and that can come in an answer.
pub(crate) const ASKED_IN_ROUNDS: &[Method] = &[Method::Elicit, Method::CreateMessage, Method::ListRoots];

/// What is sent of a call, or was.
#[derive(Clone, Copy)]
pub(crate) enum Sent<'a> {
    /// Not known, or as it was received.
    Unchanged,
    /// The members of the parameters.
    Members(&'a OutMembers),
    /// The content that chains made.
    Content(&'a str),
}

/// The entries that must run, and that were not on the call when it began.
#[derive(Default)]
pub(crate) struct NewGuards {
    /// Those over the answer.
    pub(crate) response: Vec<Selected>,
    /// The chain of one over questions.
    pub(crate) question: Option<String>,
}

impl NewGuards {
    /// Returns the denial of content that is neither an answer nor a question that these entries could run on.
    pub(crate) fn denial(&self) -> Option<Denial> {
        let response = self.response.first().map(|selected| selected.chain.name.clone());
        self.question.clone().or(response).map(|chain| past_new_guard(&chain))
    }
}

/// Returns the denial of a call that a Guard of this chain has not seen, because it came into force after the call began.
fn past_new_guard(chain: &str) -> Denial {
    let text = "A Guard came into force during the call, and has not seen it. Call again.".to_owned();
    Denial { chain: Some(chain.to_owned()), ..Denial::without_cause(Reason::FailsClosed, text) }
}

/// The same for a call that its server has already had.
fn past_new_guard_when_sent(chain: &str) -> Denial {
    let text = "A Guard came into force during the call, and has not seen it. The server may have done what the call asks for: find \
                that out before you call again.";
    Denial { kind: DenialKind::Failed(Reason::FailsClosed), text: text.to_owned(), ..past_new_guard(chain) }
}

impl Chains {
    /// Checks a call before its next effect. If nothing changed since its last check, this compares two pointers. `sent` is what
    /// was sent or is about to be, if that is known.
    ///
    /// # Errors
    /// The end of the call: the gateway is stopped and something would be sent, the rules deny the call to the client as it is
    /// known now, or an entry that must run has not seen what was sent.
    pub(crate) fn recheck(&self, call: &Routed<'_>, effect: Effect<'_>, sent: Sent<'_>) -> Result<NewGuards, CallEnd> {
        let newest = self.in_force.snapshot();
        let sends = !matches!(effect, Effect::Answer(_));
        let open = if sends { self.gate.check_open(&newest, call.request.caller) } else { check_refusing(&newest) };
        open.map_err(|error| self.ends.not_admitted(&error))?;
        let answered_by = call.request.client.latest_identity();
        if answered_by.is_none() && Arc::ptr_eq(&newest.linked, &call.snapshot.linked) {
            return Ok(NewGuards::default());
        }
        let Some(index) = newest.upstream_of(call.plan()) else {
            // No rule and no chain can name an upstream that was deleted. An answer that is already there may be given.
            let gone = || self.ends.not_there(&newest, call.request, call.meta, &Lookup::Unknown);
            // A run finds out itself that its pipeline is gone.
            let ends = sends && call.plan().pipeline().is_none();
            return if ends { Err(gone()) } else { Ok(NewGuards::default()) };
        };
        let identity = answered_by.as_ref().unwrap_or(&call.request.caller.identity);
        let Some(identity) = current_identity(&newest, identity) else { return Err(self.key_removed(call)) };
        let contents = call.contents(sent);
        self.check_rules(call, &newest, (index, identity), &contents)?;
        let upstream = &newest.linked.upstreams[index];
        let ran = if let Effect::Answer(ran) = effect { ran } else { &[] };
        let known: KnownEntries<'_> = call.item.chains().chain(ran).collect();
        for selected in call.chains_in(&newest, upstream, Phase::Request, None) {
            if let Some(chain) = known.first_new(&selected, Some((call, &contents))) {
                let denial = if sends { past_new_guard(chain) } else { past_new_guard_when_sent(chain) };
                return Err(self.ends.refused(call.request.kind, denial));
            }
        }
        let response = call.chains_in(&newest, upstream, Phase::Response, None);
        if let Some((chain, refusal)) = response.iter().find_map(|it| known.newly_refusing(it)) {
            return Err(self.ends.refused(call.request.kind, Denial::refused(Some(chain), refusal)));
        }
        let mut asked = effect.questions().iter();
        match asked.find_map(|asked| call.new_over_questions(&newest, upstream, *asked)) {
            // The client's answer must not reach the server past it.
            Some(chain) if matches!(effect, Effect::Send(_)) => {
                Err(self.ends.refused(call.request.kind, past_new_guard(&chain)))
            }
            question => Ok(NewGuards { response: known.all_new(&response), question }),
        }
    }

    /// Whether an entry over the answer that must run came into force after the call began. Texts of the server do not pass it.
    pub(crate) fn is_guarded_since(&self, call: &Routed<'_>) -> bool {
        let newest = self.in_force.snapshot();
        if Arc::ptr_eq(&newest.linked, &call.snapshot.linked) {
            return false;
        }
        let Some(index) = newest.upstream_of(call.plan()) else { return false };
        let (known, upstream) = (KnownEntries::of(call), &newest.linked.upstreams[index]);
        let response = call.chains_in(&newest, upstream, Phase::Response, None);
        response.iter().any(|selected| known.first_new(selected, None).is_some())
    }

    /// Returns the end of a call whose questions passed their chains while a Guard came into force, or a rule that denies the call.
    pub(in crate::engine) fn denied_since(&self, call: &Routed<'_>, sent: &OutMembers) -> Option<CallEnd> {
        match self.recheck(call, Effect::Answer(&[]), Sent::Members(sent)) {
            Ok(new) => new.denial().map(|denial| self.ends.refused(call.request.kind, denial)),
            Err(end) => Some(end),
        }
    }

    fn check_rules(
        &self,
        call: &Routed<'_>,
        newest: &Snapshot,
        (upstream, identity): (usize, &Identity),
        contents: &[Cow<'_, str>],
    ) -> Result<(), CallEnd> {
        let Some(rules) = &newest.linked.rules else { return Ok(()) };
        let client = (identity, &*call.request.caller.session);
        if let Some(task) = call.request.open_task() {
            // The arguments of the call that began the task are not known here.
            let is_shown = newest.shows_at(client, call.route, upstream);
            let gone = || CallEnd::new(Reply::Error(task.facts.gone()), CallOutcome::RpcError, Reason::TaskGone);
            return is_shown.then_some(()).ok_or_else(gone);
        }
        let read = if rules.read_calls() { contents } else { &contents[..1] };
        for content in read {
            let decision = newest.decide_at(client, call.route, upstream, call.access_content(content));
            if let Some(end) = self.ends.not_allowed(call, newest, decision, "waited") {
                return Err(end);
            }
        }
        Ok(())
    }

    fn key_removed(&self, call: &Routed<'_>) -> CallEnd {
        let text = "The API key with which this call began is not accepted any more.".to_owned();
        self.ends.refused(call.request.kind, Denial::without_cause(Reason::NotAuthorized, text))
    }

    /// Whether a client may still see a resource that it has subscribed to.
    pub fn still_shows(&self, caller: &Caller, endpoint: Endpoint<'_>, uri: &str) -> bool {
        let snapshot = self.in_force.snapshot();
        let Some(identity) = current_identity(&snapshot, &caller.identity) else { return false };
        match endpoint.find(&snapshot, ItemKind::Resource, uri) {
            Lookup::Found(found) => snapshot.shows((identity, &caller.session), &found.route),
            _ => false,
        }
    }
}

/// Returns the identity as the plan knows it now: an API key has the groups of the plan. `None` if the plan has the key no more.
pub(in crate::engine) fn current_identity<'a>(
    newest: &'a Snapshot,
    identity: &'a Arc<Identity>,
) -> Option<&'a Arc<Identity>> {
    if identity.method != IdentityMethod::ApiKey {
        return Some(identity);
    }
    let mut keys = newest.linked.methods.api_keys.iter().map(|key| &key.identity);
    keys.find(|known| known.key() == identity.key())
}

impl Routed<'_> {
    /// Returns the content of the call as it was received and, if it is another one, as it is sent.
    fn contents(&self, sent: Sent<'_>) -> Vec<Cow<'_, str>> {
        let mut contents = vec![Cow::Borrowed(&*self.content)];
        match sent {
            Sent::Unchanged => {}
            Sent::Members(members) => contents.push(Cow::Owned(self.as_content(members))),
            Sent::Content(content) => contents.push(Cow::Owned(content.to_owned())),
        }
        contents.dedup();
        contents
    }

    /// Returns the chain of the first new entry over questions of this method.
    fn new_over_questions(&self, newest: &Snapshot, upstream: &LinkedUpstream, asked: Method) -> Option<String> {
        let known = KnownEntries::of_questions(self, asked);
        [Phase::Request, Phase::Response].into_iter().find_map(|phase| {
            let chains = self.chains_in(newest, upstream, phase, Some(asked));
            chains.iter().find_map(|selected| known.first_new(selected, None)).map(str::to_owned)
        })
    }

    /// Returns the chains of a phase in the newest plan that select the call, or questions of this method during it.
    fn chains_in(
        &self,
        newest: &Snapshot,
        upstream: &LinkedUpstream,
        phase: Phase,
        question: Option<Method>,
    ) -> Vec<Selected> {
        let kind = self.request.kind;
        let plan: &UpstreamPlan = &upstream.target.plan;
        select(&newest.linked, plan, (question.unwrap_or(kind.used_by()), phase), kind, &self.route.item.name)
    }
}

/// The entries that act on a call by the plan that it began with, and the chains that refused. An edit of such an entry, of its
/// plugin or of its chain changes nothing for the call.
#[derive(Default)]
struct KnownEntries<'a> {
    entries: BTreeSet<(&'a str, Phase, &'a str)>,
    refusing: BTreeSet<&'a str>,
}

impl<'a> KnownEntries<'a> {
    fn of(call: &'a Routed<'_>) -> Self {
        call.item.chains().collect()
    }

    fn of_questions(call: &'a Routed<'_>, method: Method) -> Self {
        call.item.questions(method).into_iter().flat_map(|chains| chains.all()).collect()
    }

    fn is_new(&self, chain: &LinkedChain, entry: &LinkedEntry) -> bool {
        entry.must_run() && !self.entries.contains(&(&*chain.name, chain.plan.phase, &*entry.name))
    }

    fn newly_refusing<'s>(&self, selected: &'s Selected) -> Option<(&'s str, &'s Refusal)> {
        let chain = &selected.chain;
        let refusal = chain.plan.refusing.as_ref()?;
        (!self.refusing.contains(&*chain.name)).then_some((&*chain.name, refusal))
    }

    /// Returns the chain's name if it refuses now, or has a new entry that acts on the call. One whose `when` is false for each of
    /// these contents of the call does not.
    fn first_new<'s>(
        &self,
        selected: &'s Selected,
        of_request: Option<(&Routed<'_>, &[Cow<'_, str>])>,
    ) -> Option<&'s str> {
        let excused = |entry: &LinkedEntry| {
            let Some((call, contents)) = of_request else { return false };
            let is_false = |content: &Cow<'_, str>| {
                call.when(content).holds(entry, &Content::Arguments(content.clone().into_owned())) == Ok(false)
            };
            contents.iter().all(is_false)
        };
        let mut acting = selected.acting();
        let is_new = self.newly_refusing(selected).is_some()
            || acting.any(|entry| self.is_new(&selected.chain, entry) && !excused(entry));
        is_new.then_some(&*selected.chain.name)
    }

    /// Returns the chains that have new entries, with these alone.
    fn all_new(&self, chains: &[Selected]) -> Vec<Selected> {
        chains.iter().filter_map(|selected| self.only_new(selected)).collect()
    }

    /// Returns the chain with its new entries alone; `None` if it has none.
    fn only_new(&self, selected: &Selected) -> Option<Selected> {
        let new = selected.acting().filter(|entry| self.is_new(&selected.chain, entry));
        let entries: Vec<_> = new.cloned().collect();
        if entries.is_empty() {
            return None;
        }
        let filter_admits = vec![true; entries.len()];
        Some(Selected { chain: Arc::new(selected.chain.with_entries(entries)), filter_admits })
    }
}

impl<'a> FromIterator<&'a Selected> for KnownEntries<'a> {
    fn from_iter<I: IntoIterator<Item = &'a Selected>>(all: I) -> Self {
        let mut known = Self::default();
        for selected in all {
            let chain = &selected.chain;
            known.refusing.extend(chain.plan.refusing.as_ref().map(|_| &*chain.name));
            // An entry that only observes acts on nothing.
            let acting = selected.acting().filter(|entry| entry.enforces() && entry.rules.role != Role::Observe);
            known.entries.extend(acting.map(|entry| (&*chain.name, chain.plan.phase, &*entry.name)));
        }
        known
    }
}
