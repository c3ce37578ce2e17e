//! Calls whose answers hold a secret, and what became of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};

use crate::fixtures::{DOUBLED, LEAKS};
use crate::gateway::harness::SOON;
use crate::gateway::http::{Http, Session, call_body, call_headers};

/// What every secret begins with.
pub const SECRET: &str = "SECRET-";
/// Upstreams that are restarted, and one that is not.
pub const UPSTREAMS: [&str; 4] = ["stdio", "http", "python", "real"];
/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer that this version of the guard has seen; with the gateway's id of it where a result says so.
    Answered(u32, Option<String>),
    /// It was not sent, because what guards it is gone.
    Refused,
    /// The answer had a key twice.
    Withheld,
    /// Its upstream gave no answer.
    Unreached(String),
    /// Something else.
    Other(String),
    /// With the secret.
    Leaked(String),
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    pub began: Instant,
    pub ended: Instant,
    pub upstream: &'static str,
    pub shape: &'static str,
    pub end: End,
}

/// Clients of both eras.
pub struct Clients {
    http: Http,
    url: String,
    session: Session,
    next: AtomicUsize,
    calls: Mutex<Vec<Call>>,
}

impl Clients {
    /// Those of the gateway at `url`.
    pub async fn new(url: &str) -> Self {
        let http = Http::new();
        let session = http.initialize(url).await;
        session.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        Self { http, url: url.to_owned(), session, next: AtomicUsize::new(0), calls: Mutex::default() }
    }

    /// Every call that was answered so far.
    pub fn take(self) -> Vec<Call> {
        self.calls.into_inner().unwrap()
    }

    /// Calls the next upstream with the next shape: two in five calls go to each of the leaky servers.
    pub async fn call_next(&self) {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let upstream = UPSTREAMS[[0, 1, 0, 1, 2, 0, 1, 0, 1, 3][n % 10]];
        let shape = LEAKS.get(n / 10 % (LEAKS.len() + 1)).copied().unwrap_or(DOUBLED);
        self.call(upstream, shape, n).await;
    }

    /// Calls an upstream until its call ends so.
    pub async fn until(&self, upstream: &'static str, wanted: impl Fn(&End) -> bool) -> Instant {
        let deadline = Instant::now() + SOON;
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let end = self.call(upstream, "text", n).await;
            if wanted(&end) {
                return Instant::now();
            }
            assert!(Instant::now() < deadline, "{upstream}: still {end:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn call(&self, upstream: &'static str, shape: &'static str, n: usize) -> End {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let leaky = ["stdio", "http"].contains(&upstream);
        let (tool, shape, arguments) = match leaky {
            true => (format!("{upstream}__leak"), shape, json!({"nonce": nonce, "shape": shape})),
            false => (format!("{upstream}__echo"), "text", json!({"message": format!("{nonce} {SECRET}{nonce}")})),
        };
        let mut meta = json!({"hawsepipe.dev/trace": true});
        if n.is_multiple_of(3) {
            meta["progressToken"] = json!(n);
        }
        let began = Instant::now();
        let body = if n.is_multiple_of(2) {
            self.modern(&tool, &arguments, &meta).await
        } else {
            self.legacy(n, &tool, &arguments, &meta).await
        };
        let end = judge(&body, &nonce);
        self.calls.lock().unwrap().push(Call { began, ended: Instant::now(), upstream, shape, end: end.clone() });
        end
    }

    async fn modern(&self, tool: &str, arguments: &Value, meta: &Value) -> String {
        let body = call_body(tool, &arguments.to_string(), meta);
        self.http.send(Method::POST, &self.url, &call_headers(tool), body).await.body
    }

    async fn legacy(&self, id: usize, tool: &str, arguments: &Value, meta: &Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.session.send(body.to_string()).await.body
    }
}

/// Whether a text stands in a value, its names included.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(members) => members.iter().any(|(name, value)| name.contains(text) || holds(value, text)),
        _ => false,
    }
}

/// What a body says; of an event stream every event counts.
fn judge(body: &str, nonce: &str) -> End {
    let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    let messages: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    if body.contains(SECRET) || messages.iter().any(|message| holds(message, SECRET)) {
        return End::Leaked(body.to_owned());
    }
    let Some(answer) = messages.iter().find(|message| message.get("id").is_some()) else {
        return End::Other(body.to_owned());
    };
    let (meta, data) = (&answer["result"]["_meta"], &answer["error"]["data"]);
    match (data["reason"].as_str(), data["upstream"].as_str(), seen_by(body)) {
        (Some("FailsClosed"), ..) => End::Refused,
        (Some("DuplicateKey"), ..) => End::Withheld,
        (Some(reason), Some(_), _) | (Some(reason @ "AutoDisabled"), ..) => End::Unreached(reason.to_owned()),
        (None, _, Some(version)) if holds(answer, nonce) => {
            answered(version, meta).unwrap_or(End::Other(body.to_owned()))
        }
        _ if meta.get("hawsepipe.dev/refused").is_some() => End::Refused,
        _ => End::Other(body.to_owned()),
    }
}

/// The version of the guard that left its mark.
fn seen_by(body: &str) -> Option<u32> {
    let (_, rest) = body.split_once("[v")?;
    rest.split_once(']')?.0.parse().ok()
}

/// An error has no trace; that of a result must say that this version ran, and under which id.
fn answered(version: u32, meta: &Value) -> Option<End> {
    let Some(trace) = meta.get("hawsepipe.dev/trace") else { return Some(End::Answered(version, None)) };
    let entry = &trace[0];
    let ran = entry["outcome"] == "ran" && entry["changed"] == true && entry["metadata"]["version"] == version;
    ran.then(|| End::Answered(version, entry["metadata"]["request"].as_str().map(str::to_owned)))
}
