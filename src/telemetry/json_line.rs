//! The log format for programs: one JSON object a line.
//!
//! The logging library has such a format too. It hands each brace and quote to its writer by itself, and has each checked for
//! UTF-8, which was a tenth of all that the gateway did for a call.

use std::fmt;

use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_serde::{AsSerde, SerdeMapVisitor};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::trace_context;

/// Room for a line of usual length, in bytes.
const USUAL: usize = 512;

/// Formats log events as JSON: the id of the trace if there is one, time, level, the event's fields, target, and the current
/// span with its fields. The fields of spans must be formatted as JSON.
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Vec::with_capacity(USUAL);
        write(&mut line, context, event)?;
        line.push(b'\n');
        to.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

fn write<S, N>(line: &mut Vec<u8>, context: &FmtContext<'_, S, N>, event: &Event<'_>) -> fmt::Result
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    let normalized = event.normalized_metadata();
    let metadata = normalized.as_ref().unwrap_or_else(|| event.metadata());
    let span = event.parent().and_then(|id| context.span(id)).or_else(|| context.lookup_current());
    let write = || {
        let mut serializer = serde_json::Serializer::new(line);
        let mut members = serializer.serialize_map(None)?;
        if let Some(trace) = trace_context::current_id() {
            members.serialize_entry("trace_id", &trace)?;
        }
        members.serialize_entry("timestamp", &time)?;
        members.serialize_entry("level", &metadata.level().as_serde())?;
        let mut fields = SerdeMapVisitor::new(members);
        event.record(&mut fields);
        let mut members = fields.take_serializer()?;
        members.serialize_entry("target", metadata.target())?;
        if let Some(span) = span {
            members.serialize_entry("span", &described::<S, N>(&span))?;
        }
        members.end()
    };
    write().map_err(|_: serde_json::Error| fmt::Error)
}

/// Returns the name of a span, and its fields.
fn described<S, N>(span: &SpanRef<'_, S>) -> Map<String, Value>
where
    S: for<'a> LookupSpan<'a>,
    N: 'static,
{
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<N>>();
    let mut described: Map<_, _> = fields.and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default();
    described.insert("name".to_owned(), span.name().into());
    described
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tracing::subscriber::with_default;
    use tracing_subscriber::fmt::format::JsonFields;

    use super::super::captured_log::CapturedLog;
    use super::JsonLine;

    fn log() {
        let _call = tracing::info_span!("call", tool = "say \"so\"", n = 7).entered();
        let error: &(dyn std::error::Error + 'static) = &std::fmt::Error;
        tracing::info!(ms = 1.5, ran = true, less = -3, nothing = None::<u64>, method = %"tools/call", error, "call");
        tracing::warn!(target: "a::target", text = "line\nof \u{1b} text \u{e9}", list = ?["a", "b"], "{} of {}", 1, 2);
    }

    #[test]
    fn lines_have_what_those_of_the_library_have() {
        let (own, other) = (CapturedLog::default(), CapturedLog::default());
        let lines = tracing_subscriber::fmt().with_writer(own.clone());
        with_default(lines.fmt_fields(JsonFields::new()).event_format(JsonLine).finish(), log);
        let lines = tracing_subscriber::fmt().with_writer(other.clone()).json();
        with_default(lines.flatten_event(true).with_current_span(true).with_span_list(false).finish(), log);
        let [own, other] = [own, other].map(|kept| {
            let lines = kept.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
            lines
                .into_iter()
                .map(|mut line| {
                    assert!(line["timestamp"].take().as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
                    line
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(own.len(), 2);
        assert_eq!(own, other);
    }
}
