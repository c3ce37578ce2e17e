//! Runs chains on a call's content.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::Chains;
use super::content::Content;
use super::entry_traces::{EntryTraces, entry_labels};
use super::outcome::{CallEnd, Denial, DenialKind};
use super::routed_call::CallFacts;
use super::when::WhenInput;
use crate::domain::budget::{Category, NoRoom, Reservation};
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plugin::{Failure, Phase};
use crate::domain::ports::ToClient;
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, Skip};
use crate::domain::verdict::{Verdict, skip};
use crate::engine::access::admission::Counted;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::engine::plan::linked_item::Selected;
use crate::telemetry::trace_context::Cause;

/// The maximum number of executions in the background, that is, of observers and shadows, for which no call waits.
const MAX_BACKGROUND: u32 = 1000;

/// The data that the entries of one phase share.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    pub(crate) facts: &'a Arc<CallFacts>,
    /// The method of the content.
    pub(crate) method: Method,
    pub(crate) client: &'a dyn ToClient,
    /// Whether content that an entry changed is rejected if it has a key twice in one object. Otherwise a Guard could
    /// check the last value while the receiver of the content uses the first.
    pub(crate) unique_keys: bool,
    /// Whether a Guard, or an entry that must run, keeps content from the client that is not the client's own. The words of
    /// plugins about it are then kept from the client too.
    pub(crate) hides_errors: bool,
    /// Reserves memory for the answer and its changed versions. `None` if the content is reserved elsewhere: arguments
    /// together with the request, copies for background entries by the tasks that run these.
    pub(crate) reservation: Option<&'a Reservation>,
}

impl<'a> CallContext<'a> {
    /// Creates the context of content that must have unique keys and is reserved elsewhere.
    pub(crate) fn of(facts: &'a Arc<CallFacts>, method: Method, client: &'a dyn ToClient) -> Self {
        Self { facts, method, client, unique_keys: true, hides_errors: false, reservation: None }
    }

    /// If the content was changed, reserves memory for the original and the changed content together.
    fn hold(&self, content: &Content, changed: Option<&Content>) -> Result<(), ChainEnd> {
        let (Some(reservation), Some(changed)) = (self.reservation, changed) else { return Ok(()) };
        reservation.resize(content.size() + changed.size()).map_err(|NoRoom| ChainEnd::NoRoom)
    }
}

/// Why content does not go on after a chain.
#[derive(Clone, Debug)]
pub(crate) enum ChainEnd {
    /// An entry denied it or failed, or it may not pass.
    Denied(Denial),
    /// The memory budget has no room for the changed content.
    NoRoom,
}

impl ChainEnd {
    /// Returns the end of a call that uses an item of this kind.
    pub(crate) fn of_call(self, kind: ItemKind) -> CallEnd {
        match self {
            Self::Denied(denial) => CallEnd::denied(kind, denial),
            Self::NoRoom => CallEnd::no_room(),
        }
    }
}

/// A client that discards all notifications and answers no question. Used for executions in the background.
pub(crate) struct Nobody;

impl ToClient for Nobody {
    fn progress(&self, _: Box<RawValue>) {}
}

impl Chains {
    /// Runs the selected chains of one phase in order. Each entry gets the content as the entries before it have
    /// changed it. Returns the changed content, or `None` if no entry changed it.
    ///
    /// # Errors
    /// If an entry denied the content or failed under the policy `Fail`, or if the changed content exceeds the memory
    /// budget.
    pub(crate) async fn run_chains(
        self: &Arc<Self>,
        context: CallContext<'_>,
        selected: &[Selected],
        when: &WhenInput<'_>,
        content: &Content,
        traces: &mut EntryTraces,
    ) -> Result<Option<Content>, ChainEnd> {
        let (whole, mut changed) = (content, None);
        let context = CallContext { hides_errors: hides_errors(context.method, selected), ..context };
        for Selected { chain, filter_admits } in selected {
            let mut stopped = false;
            for (entry, filter_admits) in chain.entries.iter().zip(filter_admits) {
                let place = traces.advance();
                let content = changed.as_ref().unwrap_or(content);
                let unevaluated = match admitted(entry, *filter_admits, stopped, when, content) {
                    Ok(unevaluated) => unevaluated,
                    Err(why) => {
                        traces.set(place, EntryOutcome::Skipped(why));
                        continue;
                    }
                };
                if !entry.rules.on_path() {
                    self.run_beside(context, chain, (entry, unevaluated), content, traces, place);
                    continue;
                }
                let judged = self.execute(context, chain, (entry, unevaluated), content).await;
                traces.ran(place, judged.trace);
                let denied = |kind, text| Err(ChainEnd::Denied(Denial::by_entry(kind, &chain.name, &entry.name, text)));
                match judged.verdict {
                    Verdict::Go { stop, .. } => {
                        stopped |= stop;
                        changed = judged.changed.or(changed);
                        context.hold(whole, changed.as_ref())?;
                    }
                    Verdict::Pass(_) => {}
                    Verdict::Deny { text, error } => return denied(DenialKind::Denied(error), text),
                    Verdict::Fail(failure) => {
                        let text = failed_text(context.method, chain.plan.phase, &entry.name, &failure);
                        return denied(DenialKind::Failed(failure.reason), text);
                    }
                }
            }
        }
        Ok(changed)
    }

    /// Runs an entry in the background, so that the call does not wait for it. The entry counts as failed if too many
    /// executions already run in the background, or if the memory budget is exhausted.
    fn run_beside(
        self: &Arc<Self>,
        context: CallContext<'_>,
        chain: &Arc<LinkedChain>,
        (entry, unevaluated): (&Arc<LinkedEntry>, Option<String>),
        content: &Content,
        traces: &mut EntryTraces,
        place: usize,
    ) {
        let reservation = self.budget.reservation(Category::Beside);
        let counted = Counted::enter(&self.gate.background, Some(MAX_BACKGROUND), None);
        let (Ok(counted), Ok(())) = (counted, reservation.resize(content.size())) else {
            let reason = Reason::PoolExhausted;
            self.metrics.entry(&entry_labels(context.method, chain, entry, "pool_exhausted", reason.as_str()));
            return traces.set(place, EntryOutcome::Failed(reason));
        };
        let (chains, facts, method) = (Arc::clone(self), Arc::clone(context.facts), context.method);
        let (unique_keys, hides_errors) = (context.unique_keys, context.hides_errors);
        let (chain, entry, content) = (Arc::clone(chain), Arc::clone(entry), content.clone());
        let task = tokio::spawn(Cause::current().around(async move {
            let _held = (counted, reservation);
            let (client, facts) = (&Nobody, &facts);
            let context = CallContext { facts, method, client, unique_keys, hides_errors, reservation: None };
            chains.execute(context, &chain, (&entry, unevaluated), &content).await.trace
        }));
        traces.runs_beside(place, task);
    }
}

/// Whether these chains can keep content from the client that is not the client's own.
fn hides_errors(method: Method, selected: &[Selected]) -> bool {
    let is_response = |selected: &Selected| selected.chain.plan.phase == Phase::Response;
    (method.is_question() || selected.iter().any(is_response)) && selected.iter().any(Selected::checks)
}

/// Returns why the `when` of an entry that runs could not be evaluated; `None` if it could.
///
/// # Errors
/// The reason why the entry is skipped.
fn admitted(
    entry: &LinkedEntry,
    filter_admits: bool,
    stopped: bool,
    when: &WhenInput<'_>,
    content: &Content,
) -> Result<Option<String>, Skip> {
    if let Some(skip) = skip(entry.enabled, filter_admits, stopped, entry.rules.role) {
        return Err(skip);
    }
    match when.holds(entry, content) {
        Ok(true) => Ok(None),
        Ok(false) => Err(Skip::When),
        Err(fault) => Ok(Some(fault)),
    }
}

fn failed_text(method: Method, phase: Phase, plugin: &str, failure: &Failure) -> String {
    let (what, reason) = (what_failed(method, phase), failure.reason);
    // In the response phase, a plugin that denies has failed, as one that throws.
    let denies = method.is_question() && phase == Phase::Response && reason == Reason::PluginError;
    let did = if denies { "did not let it pass" } else { "could not do its work" };
    format!("{what}: plugin {plugin} {did} ({reason}).")
}

fn what_failed(method: Method, phase: Phase) -> &'static str {
    match phase {
        _ if !method.is_question() => "The call failed",
        Phase::Request => "The server's question could not be passed on",
        Phase::Response => "The client's answer to the server's question could not be passed on",
    }
}
