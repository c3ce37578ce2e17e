//! Sends a client what belongs to its request before the answer: notifications, and questions of servers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::parking::Parking;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::identity::Identity;
use crate::domain::log_level::LogLevel;
use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::Question;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::request;
use crate::domain::upstream::Answer;
use crate::domain::version::has_primed_streams;
use crate::engine::access::session::Session;
use crate::engine::exchange::{ClientAnswer, Exchange, OpenQuestion};
use crate::telemetry::metrics::Metrics;

/// How long a client has to answer a question.
pub(super) const LONGEST_QUESTION: Duration = Duration::from_secs(5 * 60);
/// How long a question waits while no connection of its call is open. Such a client may come back to the stream, but one
/// that is gone must not hold its call.
const LONGEST_UNATTENDED: Duration = Duration::from_secs(60);

/// The notifications that a client wants before the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WantedNotices<'a> {
    /// The token for progress notifications, as raw JSON; `None` if the client wants none.
    pub(super) progress: Option<&'a str>,
    /// The lowest level of log messages; `None` if the client wants none.
    pub(super) log_level: Option<LogLevel>,
}

/// Makes the id of a question to the client of a session, as raw JSON.
pub(super) type NewQuestion<'a> = dyn Fn(&Session) -> Option<String> + Sync + 'a;

/// Sends messages to a client through the exchange of its request.
pub(super) struct ClientSender<'a> {
    pub(super) wanted: WantedNotices<'a>,
    pub(super) exchange: &'a Exchange,
    /// The client's session, at which its answers arrive; `None` in the modern era, in which clients are sent no requests.
    pub(super) session: Option<&'a Arc<Session>>,
    /// What lets the call of a client without a session wait for input.
    pub(super) parking: Option<&'a Parking>,
    /// Makes the id of a question to the client of a session, as raw JSON.
    pub(super) new_question: &'a NewQuestion<'a>,
    /// What the client answers.
    pub(super) capabilities: &'a ClientCapabilities,
    pub(super) metrics: &'a Metrics,
    /// Cancelled when the gateway ends, so that no answer can arrive any more.
    pub(super) shutdown: &'a CancellationToken,
    /// The identity with which the client of a session has answered last, if that is known whole.
    pub(super) answered_by: Mutex<Option<Arc<Identity>>>,
}

impl ClientSender<'_> {
    /// Whether the client no longer listens to the request, because it was asked for input.
    fn is_left(&self) -> bool {
        self.parking.is_some_and(|parking| parking.pending.is_left())
    }

    /// Counts a question that there is no place for. `refused` is the answer for the server.
    fn too_many(&self, refused: Answer) -> Answer {
        self.metrics.refused(Reason::Questions);
        refused
    }

    async fn put(&self, question: Question) -> Answer {
        const NO_METHOD: &str = "this client offers no such method";
        if !self.capabilities.answers(question.method) {
            return question.refused(NO_METHOD);
        }
        if let Some(parking) = self.parking {
            return match parking.pending.ask(question) {
                Ok(answering) => answering.await,
                Err(refused) => self.too_many(refused),
            };
        }
        let Some(session) = self.session.filter(|_| self.exchange.is_read()) else {
            return question.refused(NO_METHOD);
        };
        let Some(open) = (self.new_question)(session).and_then(|id| session.questions.open(id)) else {
            return self.too_many(question.refused("this client has left too many questions unanswered"));
        };
        let message = request(Some(open.id()), question.method.as_str(), question.params.as_deref());
        let Ok(number) = self.exchange.request(message) else {
            return question.refused("there is no room for what waits to be sent to this client");
        };
        let mut sent = SentQuestion { exchange: self.exchange, open, number, answered: false };
        let why = tokio::select! {
            answer = sent.open.answer() => {
                sent.answered = answer.is_some();
                let Some(ClientAnswer { answer, identity }) = answer else {
                    return question.refused("the session of this client has ended");
                };
                if identity.is_some() {
                    *self.answered_by.lock().unwrap_or_else(PoisonError::into_inner) = identity;
                }
                return answer;
            }
            () = session.ended.cancelled() => "the session of this client has ended",
            () = self.exchange.unattended(LONGEST_UNATTENDED) => "the client is gone: no connection of its call is open",
            () = self.shutdown.cancelled() => "this gateway is about to end",
            () = tokio::time::sleep(LONGEST_QUESTION) => "the client did not answer in time",
        };
        question.refused(why)
    }
}

/// A question that was sent. If it is dropped before it is answered, the client is told that it is withdrawn.
struct SentQuestion<'a> {
    exchange: &'a Exchange,
    open: OpenQuestion,
    /// The number of the message.
    number: u64,
    answered: bool,
}

impl Drop for SentQuestion<'_> {
    fn drop(&mut self) {
        let was_sent = self.exchange.withdraw(self.number);
        if self.answered || !was_sent {
            return;
        }
        let id: &RawValue = serde_json::from_str(self.open.id()).unwrap_or(RawValue::NULL);
        let params = to_raw(&json!({"requestId": id, "reason": "the server no longer waits for the answer"}));
        self.exchange.notify(request(None, "notifications/cancelled", Some(&params)));
    }
}

impl ToClient for ClientSender<'_> {
    fn progress(&self, params: Box<RawValue>) {
        if self.is_left() {
            return;
        }
        let Some(token) = self.wanted.progress else { return };
        let Some(rest) = params.get().trim_start().strip_prefix('{') else { return };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        self.exchange.notify(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}{comma}{rest}}}"#
        ));
    }

    fn message(&self, params: Box<RawValue>) {
        if self.is_left() {
            return;
        }
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let level = object.get("level").and_then(|level| LogLevel::parse(level.get()));
        if self.wanted.log_level.is_some_and(|least| level.is_some_and(|level| level >= least)) {
            self.exchange.notify(request(None, "notifications/message", Some(&params)));
        }
    }

    fn stream_ended(&self, retry: Option<Duration>) {
        if self.session.is_some_and(|session| has_primed_streams(&session.version)) {
            self.exchange.leave(retry);
        }
    }

    fn latest_identity(&self) -> Option<Arc<Identity>> {
        let answered_by = self.answered_by.lock().unwrap_or_else(PoisonError::into_inner).clone();
        answered_by.or_else(|| self.parking?.pending.identity())
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        Box::pin(self.put(question))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use futures_util::FutureExt;

    use super::*;
    use crate::domain::budget::ByteBudget;
    use crate::domain::method::Method;
    use crate::engine::exchange::Next;
    use crate::telemetry::scrape_input::ScrapeInput;

    fn exchange() -> Exchange {
        Exchange::new(&Arc::new(ByteBudget::new(1 << 20)), &Arc::default(), true)
    }

    fn plain<'a>(wanted: WantedNotices<'a>, exchange: &'a Exchange) -> ClientSender<'a> {
        static SHUTDOWN: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
        static NOTHING: LazyLock<ClientCapabilities> = LazyLock::new(ClientCapabilities::default);
        static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::new().unwrap());
        ClientSender {
            wanted,
            exchange,
            session: None,
            parking: None,
            new_question: &|_| None,
            capabilities: &NOTHING,
            metrics: &METRICS,
            shutdown: &SHUTDOWN,
            answered_by: Mutex::default(),
        }
    }

    fn first(exchange: &Exchange) -> Option<String> {
        let reader = exchange.attach();
        if let Next::Message(_, text) = exchange.next(reader, 0) { Some(text.to_string()) } else { None }
    }

    fn sent(params: &str) -> Option<String> {
        let exchange = exchange();
        let wanted = WantedNotices { progress: Some("\"t\""), log_level: None };
        let sender = plain(wanted, &exchange);
        sender.progress(RawValue::from_string(params.into()).unwrap());
        first(&exchange)
    }

    #[test]
    fn log_messages_pass_from_the_wanted_level_on() {
        let tell = |log_level: Option<LogLevel>, params: &str| {
            let exchange = exchange();
            let wanted = WantedNotices { progress: None, log_level };
            let sender = plain(wanted, &exchange);
            sender.message(RawValue::from_string(params.into()).unwrap());
            first(&exchange)
        };
        let params = r#"{"level":"warning","data": 1.0}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
        assert_eq!(tell(Some(LogLevel::Warning), params), Some(message.clone()));
        assert_eq!(tell(Some(LogLevel::Debug), params), Some(message));
        assert_eq!(tell(Some(LogLevel::Error), params), None);
        assert_eq!(tell(None, params), None);
        assert_eq!(tell(Some(LogLevel::Debug), r#"{"level":"loud"}"#), None);
    }

    #[test]
    fn progress_carries_the_client_s_token_and_the_rest_as_it_came() {
        let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t""#;
        assert_eq!(sent(r#"{"progress": 1.0}"#).unwrap(), format!("{head},\"progress\": 1.0}}}}"));
        assert_eq!(sent("{}").unwrap(), format!("{head}}}}}"));
        assert_eq!(sent("[]"), None);
    }

    #[tokio::test]
    async fn a_question_that_there_is_no_place_for_is_counted() {
        let (exchange, budget) = (exchange(), Arc::new(ByteBudget::new(1 << 20)));
        let parking = Parking::new(&budget, &Arc::default());
        let capabilities = ClientCapabilities::read(Some(&to_raw(&json!({"elicitation": {}}))));
        let metrics = Metrics::new().unwrap();
        let sender = ClientSender {
            parking: Some(&parking),
            capabilities: &capabilities,
            metrics: &metrics,
            ..plain(WantedNotices::default(), &exchange)
        };
        let mut asked: Vec<_> = (0..9).map(|_| sender.ask(Question { method: Method::Elicit, params: None })).collect();
        let answered = asked.iter_mut().map(|question| question.now_or_never()).filter(Option::is_some).count();
        assert_eq!(answered, 1);
        let scraped = metrics.render(&ScrapeInput::default());
        assert!(scraped.contains("hawsepipe_calls_refused_total{reason=\"Questions\"} 1\n"), "{scraped}");
    }
}
