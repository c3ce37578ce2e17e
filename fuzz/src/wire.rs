//! What clients and servers send: messages, headers, event streams.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use hawsepipe::domain::budget::{ByteBudget, Category};
use hawsepipe::domain::header_text::{decode, encode};
use hawsepipe::domain::members::MessageMembers;
use hawsepipe::domain::method::Method;
use hawsepipe::domain::rpc::PARSE_ERROR;
use hawsepipe::transport::mcp_headers::{Presence, VERSION_HEADER, check_routing, merge_versions};
use hawsepipe::transport::rate_limit::RateLimit;
use hawsepipe::upstream::streamable::response_body::Messages;
use hawsepipe::web::envelope::ClientMessage;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::StreamBody;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MAX_INPUT, kind};

/// The name header of the protocol (MCP 2026-07-28, Streamable HTTP).
const NAME_HEADER: &str = "mcp-name";

/// The body of a client's POST.
pub fn envelopes(data: &[u8]) -> String {
    // A reader of whole values refuses more than the grammar does: lone surrogates, numbers that it cannot hold.
    let whole = serde_json::from_slice::<Value>(data).ok();
    match ClientMessage::parse(data) {
        Err(unreadable) => {
            assert!(whole.is_none() || unreadable.error.code != PARSE_ERROR, "JSON is said not to be JSON");
            format!("{} {}", unreadable.error.code, kind(&unreadable.error.message))
        }
        Ok(ClientMessage::Answer { id, .. }) => {
            assert_id(id, true);
            format!("an answer to {:.1}", id)
        }
        Ok(ClientMessage::Notification { method, params }) => {
            format!("a notification, {}, {}", method.starts_with("notifications/"), params.raw.is_some())
        }
        Ok(ClientMessage::Request { id, method, params }) => {
            assert!(serde_json::from_slice::<&RawValue>(data).is_ok(), "what is no JSON is read as a request");
            assert_id(id, false);
            let other = whole.as_ref().map_or(Some(&*method), |whole| whole["method"].as_str());
            assert_eq!(other, Some(&*method), "another reader sees another method");
            let meta = params.read_meta();
            let token = meta.as_ref().and_then(|meta| meta.progress_token());
            token.iter().for_each(|token| assert_id(token, false));
            let round = params.round().map_or_else(|why| kind(why).to_owned(), |round| round.is_empty().to_string());
            format!("a request {:.1}, {}, {}, {round}", id, meta.is_some(), token.is_some())
        }
    }
}

/// Asserts that this is an id as raw JSON. A number may be one that [`Value`] cannot hold.
fn assert_id(id: &str, may_be_null: bool) {
    let holds = match id.as_bytes().first() {
        Some(b'"' | b'-' | b'0'..=b'9') => serde_json::from_str::<IgnoredAny>(id).is_ok(),
        _ => may_be_null && id == "null",
    };
    assert!(holds, "{id:?} is no id");
}

/// Lines of headers, a NUL, the method of the body, a NUL, what the body names.
pub fn headers(data: &[u8]) -> String {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let lines = parts.next().unwrap_or_default();
    let Ok(method) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return "no method".into() };
    let Ok(name) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return "no name".into() };
    let mut headers = HeaderMap::new();
    for (header, value) in lines.split(|byte| *byte == b'\n').filter_map(header) {
        headers.append(header, value);
    }
    let written = encode(name);
    assert_eq!(decode(&written).as_deref(), Some(name), "what is written is not what is read");
    assert!(HeaderValue::from_str(&written).is_ok(), "{written:?} is no value of a header");
    merge_versions(&mut headers);
    let merged = headers.clone();
    merge_versions(&mut headers);
    assert_eq!(headers, merged, "versions that were merged merge again");
    let named = |_| Some(Cow::Borrowed(name));
    let required = check_routing(&headers, method, named, Presence::Required);
    let mut came = format!("{} versions", headers.get_all(VERSION_HEADER).iter().count().min(3));
    let names: Vec<_> = headers.get_all(NAME_HEADER).iter().collect();
    if required.is_ok() {
        assert!(names.len() < 2, "two names pass for one");
        assert!(check_routing(&headers, method, named, Presence::Optional).is_ok(), "what may be left out must not");
    }
    let optional = check_routing(&headers, method, named, Presence::Optional);
    for checked in [required, optional] {
        came.push_str(checked.as_ref().map_or_else(|error| kind(&error.message), |()| ", fits"));
    }
    format!("{came}, {} names, {}, {}", names.len(), written == name, Method::parse(method).is_some())
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let at = line.iter().position(|byte| *byte == b':')?;
    let value = line[at + 1..].trim_ascii();
    Some((HeaderName::from_bytes(&line[..at]).ok()?, HeaderValue::from_bytes(value).ok()?))
}

/// The size of a piece (one byte), and the event stream of a server. It is read in one piece and in pieces of that size,
/// which comes to the same.
pub fn events(data: &[u8]) -> String {
    let Some((size, stream)) = data.split_first() else { return "nothing".into() };
    let stream = &stream[..stream.len().min(MAX_INPUT)];
    let whole = messages(&[stream]);
    let pieces: Vec<_> = stream.chunks(usize::from(*size).max(1)).collect();
    assert_eq!(messages(&pieces), whole, "where the stream is cut changes what it says");
    let (messages, end) = whole;
    let first = messages.first().map(|message| {
        let members = MessageMembers::read(message.as_bytes());
        let is_json = serde_json::from_str::<IgnoredAny>(message).is_ok();
        assert!(is_json || !members.whole, "what is no JSON is a whole message");
        format!(
            "{} {} {} {}",
            members.whole,
            members.doubled,
            members.id.value.is_some(),
            members.method.value.is_some()
        )
    });
    format!("{} messages, {end}, {first:?}", messages.len().min(4))
}

/// The messages of a stream that arrives in these pieces, and how it ends.
fn messages(pieces: &[&[u8]]) -> (Vec<String>, String) {
    let frames: Vec<_> =
        pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    let budget = Arc::new(ByteBudget::new(16 * MAX_INPUT as u64));
    let reservation = budget.reservation(Category::Answer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let body = StreamBody::new(stream::iter(frames));
        let mut stream = Messages::new(body, 2 * MAX_INPUT as u64, reservation, RateLimit::default());
        let mut messages = Vec::new();
        loop {
            match stream.next().await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => return (messages, "ended".to_owned()),
                Err(error) => return (messages, kind(&error.to_string()).to_owned()),
            }
        }
    })
}
