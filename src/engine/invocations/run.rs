//! Creates invocations and runs them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Invocations;
use crate::config::nearest;
use crate::domain::budget::Category;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::identity::Identity;
use crate::domain::invocation::{
    Invocation, InvocationEnd, InvocationStatus, NewInvocation, end_of_error, end_of_result, end_of_upstream_error,
};
use crate::domain::item::ItemKind;
use crate::domain::plan::{SERVER_ID, UpstreamPlan};
use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_PARAMS, REQUEST_CANCELLED, RpcError};
use crate::domain::section::{Place, SECTION};
use crate::domain::upstream::InputRound;
use crate::domain::version::{Era, LEGACY_VERSIONS};
use crate::engine::chains::host::may_be_arguments;
use crate::engine::chains::routed_call::timestamp;
use crate::engine::in_flight::invocation::InvocationEntry;
use crate::engine::in_flight::table::NoPlace;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, Caller, Endpoint, Reply, TaskUse};

/// Why an invocation is not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The plan has no upstream of this name.
    #[error("serverId: the gateway has no upstream {0:?}{1}")]
    UnknownServer(String, String),
    /// The parameters are no object, or nested too deep.
    #[error("parameters: must be a JSON object that is not nested too deep")]
    InvalidParameters,
    /// The place in the document is not valid.
    #[error("documentPath, sectionLine, section: {0}")]
    InvalidSection(String),
    /// As many invocations run as are kept.
    #[error("too many invocations are running: try again later")]
    Full,
}

impl Invocations {
    /// Creates an invocation, and runs it in a task of its own.
    ///
    /// # Errors
    /// If the plan has no such upstream, the parameters cannot be arguments, the place in the document is not valid, or too
    /// many invocations are running.
    pub fn invoke(self: &Arc<Self>, mut new: NewInvocation) -> Result<Arc<InvocationEntry>, InvokeError> {
        let snapshot = self.in_force.snapshot();
        if let Some(server) = &mut new.server_id {
            *server = name_of(&snapshot, server)?;
        }
        let place = place_of(&new).map_err(InvokeError::InvalidSection)?;
        let mut invocation = created(new, place, self.clock.unix_millis());
        invocation.max_retries = self.retries_of(&snapshot, &invocation);
        if !may_be_arguments(&invocation.parameters) {
            return Err(InvokeError::InvalidParameters);
        }
        let id = invocation.id.clone();
        let entry = Arc::new(InvocationEntry::new(invocation, self.budget.reservation(Category::Answer)));
        self.gate.in_flight.invocations.add(id, &entry, u64::MAX).map_err(|NoPlace| InvokeError::Full)?;
        self.run_in_background(Arc::clone(&entry));
        Ok(entry)
    }

    /// How often an invocation can be sent again, as far as its upstream is known.
    fn retries_of(&self, snapshot: &Snapshot, invocation: &Invocation) -> u32 {
        let by_tool = || tool_of(snapshot, &invocation.tool_name, None).map(|(server, _)| server);
        let server = invocation.server_id.clone().or_else(by_tool);
        let index = server.and_then(|server| snapshot.upstream(&server));
        index.map_or(0, |index| snapshot.linked.upstreams[index].target.plan.retry.attempts)
    }

    fn run_in_background(self: &Arc<Self>, running: Arc<InvocationEntry>) {
        let invocations = Arc::clone(self);
        drop(self.gate.run_detached(async move {
            let end = tokio::select! {
                biased;
                () = running.cancelled.cancelled() => end_of_error(RpcError::new(REQUEST_CANCELLED, "it was cancelled")),
                end = invocations.run_invocation(&running) => end,
            };
            running.end(end, timestamp(invocations.clock.unix_millis()));
            invocations.gate.in_flight.invocations.ended(&running);
        }));
    }

    async fn run_invocation(self: &Arc<Self>, entry: &InvocationEntry) -> InvocationEnd {
        let wanted = entry.view();
        let (server, tool) = match self.invoked_tool(&wanted).await {
            Ok(found) => found,
            Err(error) => return end_of_error(error),
        };
        let (snapshot, began) = (self.in_force.snapshot(), self.clock.monotonic());
        let cut = self.gate.cut.load_full();
        let is_stopped = cut.is_cancelled();
        entry.update(|state| {
            (state.server_id, state.tool_name) = (Some(server.clone()), tool.clone());
            (state.status, state.started_at) = (InvocationStatus::Executing, Some(timestamp(self.clock.unix_millis())));
            state.max_retries = self.retries_of(&snapshot, state);
        });
        let reply = self.call_invoked(entry, &wanted, &server, &tool).await;
        let took: Duration = self.clock.monotonic().saturating_sub(began);
        match reply {
            Reply::Result(result) => end_of_result(&result, took.as_secs_f64() * 1e3),
            Reply::UpstreamError(error) => end_of_upstream_error(&error),
            // The stop switch has ended it.
            Reply::Error(error) if cut.is_cancelled() && !is_stopped => {
                (InvocationStatus::Cancelled, Err(error.into()))
            }
            Reply::Error(error) => end_of_error(error),
        }
    }

    /// Calls the tool as any client does. The call has the id of the invocation.
    async fn call_invoked(
        self: &Arc<Self>,
        entry: &InvocationEntry,
        wanted: &Invocation,
        server: &str,
        tool: &str,
    ) -> Reply {
        let caller = Caller {
            // Questions of the server are refused in this era. In the modern one, they would be the result.
            era: Era::Legacy,
            version: LEGACY_VERSIONS[0],
            identity: Identity::local(),
            token: None,
            session: String::new(),
            capabilities: ClientCapabilities::default(),
            tracker: Arc::clone(&self.gate.local),
            by_address: false,
        };
        let (input, meta): (&RawValue, _) = (&wanted.parameters, meta_of(wanted));
        let request = CallRequest {
            endpoint: Endpoint::One(server),
            caller: &caller,
            id: Some(&wanted.id),
            rpc_id: None,
            kind: ItemKind::Tool,
            name: tool,
            input: Some(input),
            meta: meta.as_deref(),
            round: InputRound::default(),
            wants_progress: false,
            log_level: None,
            client: entry,
            reservation: &entry.reservation,
            check_mirrored: None,
            within: None,
            task: TaskUse::None,
        };
        self.calls.call(request).await
    }

    /// Returns the name of the upstream and the upstream's own name for the tool. If the invocation names no upstream, this is
    /// the one that its section is bound to, else the first enabled one that has the tool (document 003, inheritance rules),
    /// or else the one whose tool clients see under the name.
    async fn invoked_tool(&self, wanted: &Invocation) -> Result<(String, String), RpcError> {
        let name = &wanted.tool_name;
        if let Some(server) = &wanted.server_id {
            return Ok((server.clone(), name.clone()));
        }
        let place = Place::of_meta(meta_of(wanted).as_deref()).unwrap_or_default();
        let bound = |snapshot: &Snapshot| snapshot.bound_section(place.as_ref()).map(|section| section.index());
        let snapshot = self.in_force.snapshot();
        let mut found = tool_of(&snapshot, name, bound(&snapshot));
        if found.is_none() {
            self.lists.wait_for_lists(&snapshot, &Endpoint::All, ItemKind::Tool).await;
            let snapshot = self.in_force.snapshot();
            // A call of another upstream than the bound one is refused, which says why.
            found = tool_of(&snapshot, name, bound(&snapshot)).or_else(|| tool_of(&snapshot, name, None));
        }
        found.ok_or_else(|| {
            let hint = Endpoint::All.did_you_mean(&self.in_force.snapshot(), ItemKind::Tool, name);
            RpcError::new(INVALID_PARAMS, format!("no enabled upstream has the tool {name:.200}{hint}"))
        })
    }
}

fn created(new: NewInvocation, place: Option<Map<String, Value>>, now: u64) -> Invocation {
    Invocation {
        id: uuid::Uuid::now_v7().to_string(),
        server_id: new.server_id,
        tool_name: new.tool_name,
        parameters: new.parameters.unwrap_or_else(|| to_raw(&serde_json::json!({})).into()),
        source: new.source,
        document_path: new.document_path,
        section_line: new.section_line,
        section: place,
        status: InvocationStatus::Pending,
        submitted_at: timestamp(now),
        started_at: None,
        completed_at: None,
        retry_attempt: 0,
        max_retries: 0,
        result: None,
        error: None,
    }
}

/// Returns the name of the upstream that has this name, with or without its namespace, or else this id in the configuration that
/// it was converted from.
fn name_of(snapshot: &Snapshot, server: &str) -> Result<String, InvokeError> {
    let plans = || snapshot.linked.upstreams.iter().map(|upstream| &upstream.target.plan);
    let is_named = |plan: &&UpstreamPlan| plan.key.name == server || plan.key.to_string() == server;
    let has_id = |plan: &&UpstreamPlan| plan.labels.get(SERVER_ID).is_some_and(|id| id == server);
    let found = plans().find(is_named).or_else(|| plans().find(has_id));
    found.map(|plan| plan.key.name.clone()).ok_or_else(|| {
        let hint = nearest::hint(server, &plans().map(|plan| &*plan.key.name).collect::<Vec<_>>());
        InvokeError::UnknownServer(server.to_owned(), hint)
    })
}

/// Returns the place that an invocation comes from: `section`, or else the line of the document.
fn place_of(new: &NewInvocation) -> Result<Option<Map<String, Value>>, String> {
    let document = new.document_path.as_deref().filter(|document| !document.is_empty());
    let by_line = |document: &str| {
        Map::from_iter([("document".into(), document.into()), ("line".into(), new.section_line.into())])
    };
    let place = new.section.clone().or_else(|| document.map(by_line));
    place.iter().try_for_each(|place| Place::of_argument(to_raw(place).get()).map(drop))?;
    Ok(place)
}

/// Returns the `_meta` of the call.
fn meta_of(invocation: &Invocation) -> Option<Box<RawValue>> {
    invocation.section.as_ref().map(|place| to_raw(&HashMap::from([(SECTION, place)])))
}

/// Finds a tool at the enabled upstreams; if `bound` is given, only at the one with this index.
fn tool_of(snapshot: &Snapshot, name: &str, bound: Option<usize>) -> Option<(String, String)> {
    let upstreams = &snapshot.linked.upstreams;
    let is_visible = |index: usize| bound.is_none_or(|bound| bound == index);
    let enabled = (0..upstreams.len()).filter(|index| upstreams[*index].target.plan.enabled && is_visible(*index));
    let mut own = enabled.filter_map(|index| snapshot.routes.own(index, ItemKind::Tool, name));
    let public = || snapshot.routes.public(ItemKind::Tool, name).filter(|route| is_visible(route.upstream));
    let route = own.next().or_else(public)?;
    Some((upstreams[route.upstream].target.plan.key.name.clone(), route.own.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new(document: Option<&str>, section: Option<Value>) -> NewInvocation {
        let section = section.map(|section| section.as_object().unwrap().clone());
        NewInvocation {
            server_id: None,
            tool_name: "read".into(),
            parameters: None,
            source: Default::default(),
            document_path: document.map(str::to_owned),
            section_line: Some(7),
            section,
        }
    }

    #[test]
    fn an_invocation_comes_from_its_section_or_else_from_a_line_of_its_document() {
        let place = |document, section| place_of(&new(document, section)).map(|place| place.map(Value::Object));
        let section = json!({"document": "a.md", "block": "b"});
        assert_eq!(place(None, None), Ok(None));
        assert_eq!(place(Some(""), None), Ok(None));
        assert_eq!(place(Some("d.md"), None), Ok(Some(json!({"document": "d.md", "line": 7}))));
        assert_eq!(place(Some("d.md"), Some(section.clone())), Ok(Some(section)));
        assert!(place(None, Some(json!({"document": 1}))).is_err());
    }

    #[test]
    fn a_new_invocation_waits_and_its_call_names_its_place() {
        let place = place_of(&new(Some("d.md"), None)).unwrap();
        let invocation = created(new(Some("d.md"), None), place, 0);
        assert_eq!((invocation.status, invocation.parameters.get()), (InvocationStatus::Pending, "{}"));
        let meta: Value = serde_json::from_str(meta_of(&invocation).unwrap().get()).unwrap();
        assert_eq!(meta, json!({"hawsepipe.dev/section": {"document": "d.md", "line": 7}}));
        assert!(meta_of(&created(new(None, None), None, 0)).is_none());
    }
}
