//! What is done with bytes that come from outside, one function for each fuzz target. Each says in words what came of
//! the input; a panic, an overflowing stack or an assertion that fails is a fault. The tests of the gateway include this
//! file and replay the corpus with it.

pub mod sealed;
pub mod wire;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hawsepipe::config::expr::Expression;
use hawsepipe::config::variables::OF_ENTRIES;
use hawsepipe::domain::method::Method;
use hawsepipe::domain::plugin::{ContentType, Input, Metadata, Output, Role, View};
use hawsepipe::domain::ports::{Answering, Host, PluginProgress};
use hawsepipe::domain::raw::RawObject;
use hawsepipe::domain::upstream::Answer;
use hawsepipe::engine::chains::content::Content;
use hawsepipe::node::inspect::parse;
use hawsepipe::node::log_mask::LogMask;
use hawsepipe::node::protocol;
use hawsepipe::node::protocol::channel::Channel;
use hawsepipe::node::protocol::socket::Socket;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;

/// A fuzz target.
pub type Target = fn(&[u8]) -> String;

/// Every target by its name, which is also that of its folder in the corpus.
pub const TARGETS: [(&str, Target); 8] = [
    ("frames", frames),
    ("answers", answers),
    ("expressions", expressions),
    ("sources", sources),
    ("envelopes", wire::envelopes),
    ("headers", wire::headers),
    ("events", wire::events),
    ("sealed", sealed::sealed),
];

/// Bytes of an input: fewer than a socket's buffer takes at once.
pub const MAX_INPUT: usize = 16 << 10;
/// Bytes that an answer may have.
const MAX_OUTPUT: usize = 4 << 10;
/// Stands for the id of a call: as long as one.
const PLACEHOLDER: &[u8] = b"1000000000000000";
/// Calls that are made over one socket.
const CALLS: usize = 8;
/// What a call has: a worker of ours says all that it says at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker that writes these bytes to its socket, and nothing more: after an even first byte as soon as it lives,
/// after an odd one when it is loaded and called. Then [`PLACEHOLDER`] stands for the id of that call.
pub fn frames(data: &[u8]) -> String {
    let Some((way, data)) = data.split_first() else { return "nothing".into() };
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let (called, data) = (way % 2 == 1, data[..data.len().min(MAX_INPUT)].to_vec());
    let worker = std::thread::spawn(move || work(theirs, called, data));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let came = runtime.block_on(converse(ours));
    // That it was hung up on is no fault of its own.
    drop(worker.join().expect("a worker that does not panic"));
    came
}

/// A gateway that has nothing for a plugin to call.
struct Nothing;

impl Host for Nothing {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async { Answer::Error(RawValue::from_string("null".into()).expect("JSON")) })
    }
}

/// The gateway's side of a worker's life.
async fn converse(socket: UnixStream) -> String {
    let mut channel = Channel::new(Socket::new(socket).expect("a descriptor to watch"), LogMask::named("fuzz"));
    let mut came = match channel.ready().await {
        Ok(_) => "ready".to_owned(),
        Err(why) => return format!("not ready: {}", why.as_deref().map_or("gone", kind)),
    };
    for _ in 0..CALLS {
        let call = protocol::PluginCall {
            input: &input("{}"),
            deadline: Instant::now() + PATIENCE,
            max_output: MAX_OUTPUT,
            host: &Nothing,
        };
        let exchange = channel.exchange(&call).await;
        came.push_str(match &exchange.output {
            Ok(output) if output.text.len() > MAX_OUTPUT => panic!("{} bytes are an answer", output.text.len()),
            Ok(_) => ", answered",
            Err(failure) => failure.reason.as_str(),
        });
        if !exchange.reusable {
            break;
        }
    }
    came
}

/// The worker's.
fn work(mut socket: UnixStream, called: bool, mut data: Vec<u8>) -> io::Result<()> {
    if called {
        socket.write_all(b"\x0d\0\0\x04\0\0\0\0{\"version\":1}")?;
        let mut head = [0; 8];
        socket.read_exact(&mut head)?;
        let mut frame = vec![0; usize::from(u16::from_le_bytes([head[0], head[1]])) + usize::from(head[4])];
        socket.read_exact(&mut frame)?;
        let id: Vec<u8> =
            frame.iter().copied().skip_while(|byte| !byte.is_ascii_digit()).take(PLACEHOLDER.len()).collect();
        let places: Vec<_> = memchr::memmem::find_iter(&data, PLACEHOLDER).collect();
        places.into_iter().for_each(|at| data[at..at + PLACEHOLDER.len()].copy_from_slice(&id));
    }
    socket.write_all(&data)?;
    socket.shutdown(Shutdown::Write)
}

/// A plugin's answer: how it saw the content (one byte), the content and, after a NUL, what it prints.
pub fn answers(data: &[u8]) -> String {
    let Some((way, rest)) = data.split_first() else { return "nothing".into() };
    let Ok(rest) = std::str::from_utf8(rest) else { return "no text".into() };
    let (given, printed) = rest.split_once('\0').unwrap_or((rest, ""));
    let output = match Output::parse(printed, None) {
        Ok(output) => output,
        Err(failure) => return kind(&failure.message).to_owned(),
    };
    let raw = || RawValue::from_string(given.to_owned());
    let content = match way % 3 {
        0 => RawObject::parse(given).map(|_| Content::Arguments(given.to_owned())),
        1 => raw().map(|raw| Content::Answer(Answer::Error(raw))),
        _ => raw().map(|raw| Content::Answer(Answer::Result(raw))),
    };
    let Ok(content) = content else { return "no content".into() };
    let view = [View::Auto, View::Text, View::Json][usize::from(way / 3 % 3)];
    // A guard may see a result whole whose text alone a shaper sees, and the other way round once it is changed.
    let seen = content.shown(Method::CallTool, view, Role::Transform);
    match content.replaced(Method::CallTool, &seen, &output.text) {
        Err(failure) => kind(&failure.message).to_owned(),
        Ok(None) => format!("{} {} unchanged", way % 9, output.proceed),
        Ok(Some(changed)) => {
            let after = changed.shown(Method::CallTool, view, Role::Transform);
            // Space around JSON is none of it.
            let bare = |text: &str| text.trim_matches([' ', '\t', '\r', '\n']).to_owned();
            let same = after.kind != seen.kind || bare(&after.text) == bare(&output.text);
            assert!(same, "{:?} is seen as {:?}", output.text, after.text);
            format!("{} {} {:?} {:?}", way % 9, output.proceed, seen.kind, after.kind)
        }
    }
}

/// The text of a CEL expression.
pub fn expressions(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return "no text".into() };
    let expression = match Expression::compile(text, OF_ENTRIES) {
        Ok(expression) => expression,
        Err(why) => return kind(&why).to_owned(),
    };
    let arguments = json!({"n": 3, "list": [1, 2], "text": "a", "deep": {"a": {"b": null}}});
    let evaluated = expression.evaluate(arguments.to_string().len(), || {
        Ok(vec![
            ("call", json!({"method": "tools/call", "name": "a__b", "arguments": arguments})),
            ("upstream", json!({"name": "a", "namespace": "default", "labels": {"tier": "internal"}})),
            ("content", json!({"text": "hello", "type": "text", "size": 5})),
        ])
    });
    let result = evaluated.map_or_else(|why| kind(&why).to_owned(), |value| value.to_string());
    format!("{} {result}", expression.reads_member("call", "arguments"))
}

/// The ending of a file's name (one byte) and a plugin's code, as the child that is to inspect it gets it. Here it has
/// a stack that no text of this size overflows.
pub fn sources(data: &[u8]) -> String {
    let Some((ending, code)) = data.split_first() else { return "nothing".into() };
    let Ok(code) = std::str::from_utf8(code) else { return "no text".into() };
    let (code, name) = (code.to_owned(), ["p.js", "p.mjs", "p.cjs"][usize::from(ending % 3)]);
    let look = move || parse::facts(&code, name);
    let parser = std::thread::Builder::new().stack_size(512 << 20).spawn(look).expect("a thread");
    let facts = parser.join().expect("a parser that does not panic");
    match facts.error {
        Some(problem) => format!("{name}: {}", kind(&problem.message)),
        None => format!("{name}: {facts:?}").chars().take(200).collect(),
    }
}

fn input(content: &str) -> Input<'_> {
    let metadata = Metadata {
        request_id: "0190-1",
        timestamp: "2026-01-02T03:04:05.678Z",
        server_name: "files",
        phase: "response",
        method: "tools/call",
        user_query: None,
        content_type: ContentType::Text,
        config: None,
        chain: "default/c",
        attempt: 1,
    };
    Input { tool_name: "files/read", raw_content: Some(content), max_tokens: None, metadata, typed: None }
}

/// A message without what it quotes or counts.
fn kind(message: &str) -> &str {
    message.split(['"', '`', '\'', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']).next().unwrap_or_default()
}
