//! Sessions of the legacy era that go on at another process of their gateway.

use std::path::PathBuf;

use hyper::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe};
use super::http::{Answer, Http, Session};
use super::manifests::{raw_server, yaml};
use super::parts::until;

pub const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEWER: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// One gateway's manifests, and files of keys beside them.
struct Replicas {
    folder: Folder,
    keys: Folder,
}

impl Replicas {
    fn new() -> Self {
        Self { folder: Folder::with(&yaml(&[raw_server("up", &[])])), keys: Folder::new() }
    }

    fn key_file(&self, name: &str, keys: &str) -> PathBuf {
        self.keys.write(name, keys);
        self.keys.path().join(name)
    }

    /// A process that has the keys of this file, ready to be called.
    async fn start(&self, name: &str, keys: &str) -> Gateway {
        let file = self.key_file(name, keys);
        let gateway = Gateway::start_with(&self.folder, &["--seal-key-file", file.to_str().unwrap()]);
        gateway.until_answer("up__args", &json!({"m": 1}), "/result/content/0/text", &json!(r#"{"m":1}"#)).await;
        gateway
    }
}

/// The same session, as its client goes on with it at another process.
pub(super) fn at(session: &Session, gateway: &Gateway) -> Session {
    Session { url: gateway.url(), ..session.clone() }
}

async fn goes_on(session: &Session) {
    let called = session.call_raw(3, "up__args", r#"{"m":2}"#).await;
    assert_eq!(called.json()["result"]["content"][0]["text"], r#"{"m":2}"#, "{}", called.body);
}

/// What tells an answer from another one.
fn shape(answer: &Answer) -> (u16, String, Vec<String>) {
    let mut names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
    names.sort();
    (answer.status, answer.body.clone(), names)
}

async fn seal_key(gateway: &Gateway, path: &str) -> Value {
    Http::new().get(&format!("http://{}/api/v1/{path}", gateway.admin())).await.json()["sealKey"].clone()
}

#[tokio::test]
async fn a_session_outlives_the_process_that_began_it() {
    let replicas = Replicas::new();
    let (home, other) = (replicas.start("home", KEY).await, replicas.start("other", KEY).await);
    let begun = Http::new().initialize(&home.url()).await;
    goes_on(&begun).await;
    home.signal(Signal::KILL);
    assert!(!home.ended().await);

    let session = at(&begun, &other);
    goes_on(&session).await;
    let headers = [("accept", "text/event-stream"), session.headers()[2], session.headers()[3]];
    assert_eq!(session.http.open(Method::GET, &session.url, &headers, "").await.status(), 200);
    let end = session.http.send(Method::DELETE, &session.url, &session.headers(), "").await;
    assert_eq!(end.status, 204, "{}", end.body);
    let ended = session.call_raw(4, "up__args", "{}").await;
    assert_eq!(ended.status, 404, "{}", ended.body);
    for path in ["report", "status"] {
        assert_eq!(seal_key(&other, path).await, "shared", "{path}");
    }
}

#[tokio::test]
async fn a_session_that_a_process_begins_while_it_ends_goes_on_at_another() {
    let replicas = Replicas::new();
    let (home, other) = (replicas.start("home", KEY).await, replicas.start("other", KEY).await);
    home.signal(Signal::TERM);
    home.logged(|line| line["message"].as_str().is_some_and(|message| message.starts_with("ending")));
    let begun = Http::new().initialize(&home.url()).await;
    goes_on(&at(&begun, &other)).await;
}

#[tokio::test]
async fn an_id_of_elsewhere_is_as_unknown_as_one_that_never_was() {
    let replicas = Replicas::new();
    let (home, foreign) = (replicas.start("home", KEY).await, replicas.start("foreign", NEWER).await);
    let own = Gateway::start(&replicas.folder);
    assert_eq!(seal_key(&own, "report").await, "own");
    let begun = Http::new().initialize(&home.url()).await;
    let at_upstream = Session { url: home.url_of("up"), ..begun.clone() };
    let cut = Session { id: begun.id[1..].to_owned(), ..begun.clone() };
    let never = Session { id: "never".to_owned(), ..begun.clone() };
    let unknown = shape(&never.call_raw(5, "up__args", "{}").await);
    assert_eq!(unknown.0, 404);
    for refused in [at(&begun, &foreign), at(&begun, &own), at_upstream, cut] {
        assert_eq!(shape(&refused.call_raw(5, "up__args", "{}").await), unknown, "{}", refused.url);
    }
    goes_on(&begun).await;
}

#[tokio::test]
async fn keys_are_rotated_while_sessions_go_on() {
    let replicas = Replicas::new();
    let (first, second) = (replicas.start("first", KEY).await, replicas.start("second", KEY).await);
    let begun = Http::new().initialize(&first.url()).await;
    let changes = |gateway: &Gateway| gateway.log().iter().filter(|line| line.contains("sealed with new keys")).count();
    // First everybody learns to open ids of the new key, then it seals, then the old one goes.
    for (n, keys) in [format!("{KEY}\n{NEWER}\n"), format!("{NEWER}\n{KEY}\n")].iter().enumerate() {
        for name in ["first", "second"] {
            replicas.key_file(name, keys);
        }
        until("both have read the keys", async || [&first, &second].into_iter().all(|g| changes(g) == n + 1)).await;
        goes_on(&at(&begun, &second)).await;
    }
    let third = replicas.start("third", NEWER).await;
    let later = Http::new().initialize(&second.url()).await;
    for gateway in [&first, &third] {
        goes_on(&at(&later, gateway)).await;
    }
    assert_eq!(at(&begun, &third).call_raw(7, "up__args", "{}").await.status, 404, "its key is gone");
}

#[test]
fn keys_that_cannot_be_used_are_told_at_the_start() {
    let replicas = Replicas::new();
    let secret = "bm90IDMyIGJ5dGVz";
    let file = replicas.key_file("wrong", &format!("{KEY}\n{secret}\n"));
    for (file, why) in [(file, "line 2 is not the base64 of 32 bytes"), ("/nowhere/key".into(), "No such file")] {
        let run = hawsepipe()
            .args(["run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-f"])
            .arg(replicas.folder.path())
            .arg("--state-dir")
            .arg(replicas.folder.state())
            .arg("--seal-key-file")
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success() && said.contains(why) && said.contains(file.to_str().unwrap()), "{said}");
        assert!(!said.contains(secret), "{said}");
    }
}
