//! The contexts of traces: of the current span, and from and to other processes (W3C Trace Context).

use std::future::Future;

use futures_util::future::Either;
use http::HeaderMap;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{FutureExt, SpanContext, TraceContextExt};
use opentelemetry::{Context, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of spans that are exported.
pub const TARGET: &str = "hawsepipe::trace";
/// The names of the two members that a context consists of, in `_meta` as in HTTP headers.
pub const MEMBERS: [&str; 2] = ["traceparent", "tracestate"];
/// The longest member that is read, in bytes: what W3C Trace Context requires a `tracestate` to have room for.
const MAX_MEMBER: usize = 512;

/// Returns the id of the current span's trace, or `None` if there is no trace.
pub fn current_id() -> Option<String> {
    let context = Span::current().context();
    let id = context.span().span_context().trace_id();
    (id != TraceId::INVALID).then(|| id.to_string())
}

/// A span, of this process or another one, that can become the parent of spans that start elsewhere, such as in another
/// task.
#[derive(Clone, Default)]
pub struct Cause(Option<SpanContext>);

impl Cause {
    /// Captures the current span.
    pub fn current() -> Self {
        Self::of(&Span::current().context())
    }

    /// Reads the context in the headers of a request. One that is not valid counts as missing.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let member = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Self::read(MEMBERS.map(member))
    }

    /// Reads the context among members of `_meta`, which `member` returns by name. One that is not valid counts as
    /// missing.
    pub fn of_meta(member: impl Fn(&str) -> Option<String>) -> Self {
        if !is_on() {
            return Self::default();
        }
        let members = MEMBERS.map(member);
        Self::read(members.each_ref().map(Option::as_deref))
    }

    /// Reads the values of [`MEMBERS`], unless traces are off.
    fn read(members: [Option<&str>; 2]) -> Self {
        if members[0].is_none() || !is_on() {
            return Self::default();
        }
        let members = Members(members.map(|value| value.filter(|value| value.len() <= MAX_MEMBER)));
        Self::of(&TraceContextPropagator::new().extract_with_context(&Context::new(), &members))
    }

    fn of(context: &Context) -> Self {
        Self(Some(context.span().span_context().clone()).filter(SpanContext::is_valid))
    }

    /// Makes the captured span the parent of `span`, which must not have been entered yet.
    pub fn lead_to(&self, span: &Span) {
        if let Some(cause) = &self.0 {
            // An error means that traces are off.
            let _ = span.set_parent(Context::new().with_remote_span_context(cause.clone()));
        }
    }

    /// Makes the captured span the parent of the spans that `future` starts outside of others.
    pub fn around<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        if !is_on() {
            return Either::Left(future);
        }
        let context = self.0.map_or_else(Context::new, |cause| Context::new().with_remote_span_context(cause));
        Either::Right(future.with_context(context))
    }
}

/// Whether spans are exported.
fn is_on() -> bool {
    tracing::span_enabled!(target: TARGET, tracing::Level::DEBUG)
}

/// Returns the members that tell another process of `span`, each as name and value; none if traces are off.
pub fn members_of(span: &Span) -> Vec<(&'static str, String)> {
    let mut members = SentContext(Vec::new());
    if !span.is_disabled() {
        TraceContextPropagator::new().inject_context(&span.context(), &mut members);
    }
    members.0
}

/// The members of a context that was received, in the order of [`MEMBERS`].
struct Members<'a>([Option<&'a str>; 2]);

impl Extractor for Members<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        MEMBERS.iter().zip(self.0).find(|(name, _)| **name == key)?.1
    }

    fn keys(&self) -> Vec<&str> {
        MEMBERS.to_vec()
    }
}

/// The members of a context that is sent.
struct SentContext(Vec<(&'static str, String)>);

impl Injector for SentContext {
    fn set(&mut self, key: &str, value: String) {
        let name = MEMBERS.into_iter().find(|name| *name == key).filter(|_| !value.is_empty());
        self.0.extend(name.map(|name| (name, value)));
    }
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::NoSubscriber;

    use super::*;

    #[test]
    fn while_traces_are_off_nothing_is_allocated_for_a_context() {
        // Tests beside this one export spans; no other subscriber counts in here.
        tracing::subscriber::with_default(NoSubscriber::default(), || {
            assert_eq!(members_of(&Span::none()).capacity(), 0);
            let headers = HeaderMap::from_iter([(http::HeaderName::from_static("traceparent"), "x".parse().unwrap())]);
            assert!(Cause::of_headers(&headers).0.is_none());
            let read = Cause::of_meta(|_| panic!("a member is read"));
            assert!(read.0.is_none());
        });
    }
}
