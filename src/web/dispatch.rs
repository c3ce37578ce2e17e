//! Requests of both eras: one dispatch by method.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::client::Client;
use super::client_sender::{ClientSender, NewQuestion, WantedNotices};
use super::continued::go_on;
use super::envelope::{Params, object, text};
use super::listener_context::{ListenerContext, PathEndpoint};
use super::offer;
use super::parking::Parking;
use super::requester::Requester;
use crate::domain::caching::{CacheHints, Caching};
use crate::domain::extensions::TASKS;
use crate::domain::item::ItemKind;
use crate::domain::log_level::LogLevel;
use crate::domain::method::Method;
use crate::domain::mirror::Mirrored;
use crate::domain::question::{COMPLETE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, RpcError};
use crate::domain::skim::Skim;
use crate::domain::upstream::InputRound;
use crate::domain::version::{Era, MODERN_VERSION, MODERN_VERSIONS, has_tasks};
use crate::engine::access::session::Session;
use crate::engine::calls::completion::complete;
use crate::engine::calls::waiting::denied_waiting;
use crate::engine::exchange::Exchange;
use crate::engine::in_flight::parked_call::Binding;
use crate::engine::{CallRequest, Caller, CompletionRequest, ListPage, Reply, TaskUse};

/// The maximum number of members of the parameters of `prompts/get`, `resources/read` and `completion/complete`.
const MAX_MEMBERS: usize = 64;

/// A client's request, whose envelope was checked by the rules of its era.
pub(super) struct ClientRequest<'a> {
    pub(super) gate: &'a Arc<ListenerContext>,
    pub(super) endpoint: &'a PathEndpoint,
    pub(super) client: Client<'a>,
    pub(super) requester: &'a Requester,
    /// The id as raw JSON.
    pub(super) id: &'a str,
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
    pub(super) exchange: &'a Exchange,
    /// What lets its call wait for input, or go on as a task.
    pub(super) parking: Option<&'a Parking>,
}

/// The result of a list. In the modern era, it also says for how long and by whom it may be cached.
struct ListResult {
    kind: ItemKind,
    page: ListPage,
    era: Era,
}

impl Serialize for ListResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        let items = if self.era == Era::Modern { &self.page.items } else { &self.page.legacy_items };
        members.serialize_entry(self.kind.list_member(), &**items)?;
        if let Some(cursor) = &self.page.next_cursor {
            members.serialize_entry("nextCursor", cursor)?;
        }
        if self.era == Era::Modern {
            let CacheHints { ttl_ms, cache_scope } = self.page.caching.hints();
            members.serialize_entry(RESULT_TYPE, COMPLETE)?;
            members.serialize_entry("ttlMs", &ttl_ms)?;
            members.serialize_entry("cacheScope", cache_scope)?;
        }
        members.end()
    }
}

impl ClientRequest<'_> {
    /// Answers the request. A method that its era does not have is unknown to it.
    pub(super) async fn reply(&self) -> Reply {
        let method = Method::parse(self.method).filter(|method| method.is_of(self.client.era()));
        if let Some(kind) = method.and_then(ItemKind::listed_with) {
            return self.list(kind).await;
        }
        if let Some(kind) = method.and_then(ItemKind::used_with) {
            return match self.client {
                Client::Legacy(session) => self.until_cancelled(session, pin!(self.use_item(kind))).await,
                Client::Modern { .. } => self.use_item(kind).await,
            };
        }
        if let Some(method) = method.filter(|method| method.is_of_task()) {
            // In a box, so that calls have no room for it.
            let mut using = Box::pin(self.use_task(method));
            return match self.client {
                Client::Legacy(session) => self.until_cancelled(session, using.as_mut()).await,
                Client::Modern { .. } => using.await,
            };
        }
        match (method, self.client) {
            (Some(Method::SetLogLevel), Client::Legacy(session)) => self.set_log_level(session),
            (Some(Method::Ping), _) => Reply::Result(to_raw(&json!({}))),
            (Some(Method::Discover), _) => self.discover().await,
            (Some(Method::Subscribe), Client::Legacy(session)) => {
                self.until_cancelled(session, pin!(self.subscribe(session))).await
            }
            (Some(Method::Unsubscribe), Client::Legacy(session)) => self.unsubscribe(session),
            (Some(Method::Listen), Client::Modern { .. }) => self.listen(self.requester.address).await,
            (Some(Method::Complete), Client::Legacy(session)) => {
                self.until_cancelled(session, pin!(self.complete())).await
            }
            (Some(Method::Complete), Client::Modern { .. }) => self.complete().await,
            _ => Reply::Error(unknown_method(self.method)),
        }
    }

    async fn discover(&self) -> Reply {
        let said = self.gate.engine.lists.announcement(self.endpoint.as_engine(), &self.requester.identity).await;
        let mut result = RawObject::default();
        let CacheHints { ttl_ms, cache_scope } = Caching::default().hints();
        result.set(RESULT_TYPE, to_raw(&COMPLETE));
        result.set("ttlMs", to_raw(&ttl_ms));
        result.set("cacheScope", to_raw(&cache_scope));
        result.set("supportedVersions", to_raw(&MODERN_VERSIONS));
        result.set("capabilities", offer::capabilities(MODERN_VERSION, &said));
        if let Some(instructions) = &said.instructions {
            result.set("instructions", to_raw(&instructions.as_ref()));
        }
        let mut meta = RawObject::default();
        meta.set("io.modelcontextprotocol/serverInfo", offer::server_info(&said));
        result.set("_meta", meta.to_raw());
        Reply::Result(result.to_raw())
    }

    async fn list(&self, kind: ItemKind) -> Reply {
        let cursor = match self.params.cursor.map(text) {
            Some(None) => return invalid("`cursor` must be a string"),
            cursor => cursor.flatten(),
        };
        let caller = self.caller();
        let listed = self.gate.engine.lists.list_for(
            &caller,
            self.endpoint.as_engine(),
            kind,
            cursor.as_deref(),
            self.params.meta,
        );
        match listed.await {
            Ok(page) => Reply::Result(to_raw(&ListResult { kind, page, era: self.client.era() })),
            Err(error) => Reply::Error(error),
        }
    }

    /// Drives `replying` until the client of the session cancels the request. It is borrowed, because an async function
    /// has room for each of its arguments twice, and this one is large.
    async fn until_cancelled(&self, session: &Session, replying: Pin<&mut impl Future<Output = Reply>>) -> Reply {
        let cancelled = session.begin(self.id);
        let _in_flight = InFlight { session, id: self.id };
        tokio::select! {
            reply = replying => reply,
            // In this era each POST gets an answer, even the POST of a cancelled request.
            () = cancelled.cancelled() => Reply::Error(RpcError::new(REQUEST_CANCELLED, "Request cancelled")),
        }
    }

    /// Returns the name of the item that the request is about. The error says what is wrong with the parameters.
    fn item_name(&self, kind: ItemKind) -> Result<Cow<'_, str>, String> {
        let params = self.params;
        let named = if kind.has_name() { params.name } else { params.uri };
        let name = named.and_then(text);
        let name = name.ok_or_else(|| format!("`{}` must be a string that names a {kind}", kind.name_member()))?;
        if kind != ItemKind::Tool && params.raw.is_some_and(has_many_members) {
            return Err(format!("`params` has more than {MAX_MEMBERS} members"));
        }
        if params.arguments.is_some_and(|arguments| object(arguments).is_none()) {
            return Err("`arguments` must be an object".to_owned());
        }
        Ok(name)
    }

    async fn use_item(&self, kind: ItemKind) -> Reply {
        let Self { gate, params, client, .. } = self;
        let name = match self.item_name(kind) {
            Ok(name) => name,
            Err(message) => return invalid(&message),
        };
        let caller = self.caller();
        let round = match self.round(&caller, kind, &name).await {
            Ok(round) => round,
            Err(reply) => return reply,
        };
        let new_question = |session: &Session| gate.new_question(session);
        let task = match params.task.filter(|_| kind == ItemKind::Tool && client.era() == Era::Legacy) {
            Some(task) if object(task).is_none() => return invalid("`task` must be an object"),
            Some(task) => TaskUse::Begins(task),
            None => TaskUse::None,
        };
        if kind == ItemKind::Tool {
            self.allow_task(&caller, &name, task).await;
        }
        let check_mirrored = |marked: &[Mirrored]| {
            if let Some(parking) = self.parking {
                parking.mirrored.get_or_init(|| marked.to_vec());
            }
            client.check_mirrored(marked, params.arguments)
        };
        let sender = self.sender(&caller, &new_question);
        let request = CallRequest {
            kind,
            name: &name,
            input: if kind == ItemKind::Tool { params.arguments } else { params.raw },
            round,
            check_mirrored: Some(&check_mirrored),
            task,
            ..self.request(&caller, &sender)
        };
        gate.engine.calls.call(request).await
    }

    /// Lets the call go on as a task if it is a run of a pipeline, and its client knows tasks: at once if that says so, which
    /// clients of the legacy era do, or else once it has taken a while.
    async fn allow_task(&self, caller: &Caller, name: &str, task: TaskUse<'_>) {
        let (gate, endpoint) = (self.gate, self.endpoint);
        let knows = match caller.era {
            Era::Modern => caller.capabilities.has_extension(TASKS),
            Era::Legacy => matches!(task, TaskUse::Begins(_)) && has_tasks(caller.version),
        };
        let Some(parking) = self.parking.filter(|_| knows) else { return };
        let Some(tool) = gate.engine.calls.pipeline_tool(caller, endpoint.as_engine(), name).await else { return };
        let Some(ticket) = self.new_ticket(caller, tool) else { return };
        let _ = parking.task.set(Arc::new(ticket));
        if caller.era == Era::Legacy {
            // The client gets the task before the call begins.
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn caller(&self) -> Caller {
        self.client.caller(&self.gate.engine, self.requester)
    }

    /// Returns the channel to the client during the request.
    pub(super) fn sender<'a>(&'a self, caller: &'a Caller, new_question: &'a NewQuestion<'a>) -> ClientSender<'a> {
        let Self { gate, params, exchange, client, .. } = self;
        // The client of a session is asked during its call, unless that goes on as a task.
        let is_parked = |parking: &&Parking| client.era() == Era::Modern || parking.task.initialized();
        ClientSender {
            wanted: if exchange.is_read() { client.wanted(params) } else { WantedNotices::default() },
            exchange,
            session: client.session(),
            parking: self.parking.filter(is_parked),
            new_question,
            capabilities: &caller.capabilities,
            metrics: gate.engine.metrics(),
            shutdown: &gate.shutdown,
            answered_by: Mutex::default(),
        }
    }

    /// Returns the request with what requests of all kinds have.
    pub(super) fn request<'a>(&'a self, caller: &'a Caller, sender: &'a ClientSender<'a>) -> CallRequest<'a> {
        CallRequest {
            endpoint: self.endpoint.as_engine(),
            caller,
            id: None,
            rpc_id: Some(self.id),
            kind: ItemKind::Tool,
            name: "",
            input: None,
            meta: self.params.meta,
            round: InputRound::default(),
            wants_progress: sender.wanted.progress.is_some(),
            log_level: sender.wanted.log_level,
            client: sender,
            reservation: self.exchange.reservation(),
            check_mirrored: None,
            within: None,
            task: TaskUse::None,
        }
    }
}

impl ClientRequest<'_> {
    /// `logging/setLevel`.
    fn set_log_level(&self, session: &Session) -> Reply {
        let Some(level) = self.params.level.and_then(|level| LogLevel::parse(level.get())) else {
            return invalid("`level` must be debug, info, notice, warning, error, critical, alert or emergency");
        };
        let engine = &self.gate.engine;
        match engine.gate.set_log_level(&self.caller(), session, level) {
            Ok(()) => Reply::Result(to_raw(&json!({}))),
            Err(error) => Reply::Error(error),
        }
    }

    /// `completion/complete`.
    async fn complete(&self) -> Reply {
        let Self { gate, params, .. } = self;
        if params.raw.is_some_and(has_many_members) {
            return invalid(&format!("`params` has more than {MAX_MEMBERS} members"));
        }
        let caller = self.caller();
        let request = CompletionRequest {
            endpoint: self.endpoint.as_engine(),
            caller: &caller,
            params: params.raw,
            meta: params.meta,
            reservation: self.exchange.reservation(),
        };
        complete(&gate.engine.calls, request).await
    }

    /// Returns what the client answers to an earlier result that asked for input. Only the modern era has calls that are
    /// repeated with answers. If this gateway itself asked, because the call waits here, continues that call and returns
    /// its reply as an error.
    async fn round(&self, caller: &Caller, kind: ItemKind, name: &str) -> Result<InputRound, Reply> {
        let Client::Modern { .. } = self.client else { return Ok(InputRound::default()) };
        let round = self.params.round().map_err(invalid)?;
        // A call that waits here is continued whatever the client now says that it answers, or it would run twice.
        let Some(parking) = self.parking.filter(|_| !caller.capabilities.answers_nothing() || !round.is_empty()) else {
            return Ok(round);
        };
        let check = |marked: &[Mirrored]| self.client.check_mirrored(marked, self.params.arguments);
        let binding = Binding::new(caller.identity.key(), self.endpoint.upstream(), kind, name, self.params.arguments);
        let denied = || {
            let input = if kind == ItemKind::Tool { self.params.arguments } else { self.params.raw };
            let (endpoint, sent) = (self.endpoint.as_engine(), (input, self.params.meta));
            denied_waiting(&self.gate.engine.calls, caller, endpoint, (kind, name), sent)
        };
        if let Some(state) = round.state.as_deref().and_then(text)
            && let Some(reply) =
                go_on(self.gate, &state, binding, (round.responses.as_deref(), caller), &check, denied).await
        {
            return Err(reply);
        }
        parking.allow(self.id, binding);
        Ok(round)
    }
}

/// A running call, which the client can cancel by the id of its request.
struct InFlight<'a> {
    session: &'a Session,
    id: &'a str,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.session.finish(self.id);
    }
}

/// Whether an object has more members than the parameters of any method need. Members are held one by one, which takes
/// more memory than their text.
fn has_many_members(object: &RawValue) -> bool {
    Skim::from(object).members().is_some_and(|members| members.count() > MAX_MEMBERS)
}

/// Returns the error for a request whose method the gateway does not serve.
pub(super) fn unknown_method(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method:.128}"))
}

pub(super) fn invalid(message: &str) -> Reply {
    Reply::Error(RpcError::new(INVALID_PARAMS, message))
}
