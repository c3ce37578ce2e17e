//! Requests that would get around rules, pages of other origins, and issuers that do not answer.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use serde_json::json;

use super::issuer::{KeyServer, SigningKey};
use super::{AUDIENCE, Http, call, tools};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::http::{call_body, call_headers};
use crate::gateway::manifests::{object, raw_server, yaml};

/// Readers differ in which of two equal keys counts: a server could read another value than the rule.
#[tokio::test]
async fn a_key_that_stands_twice_does_not_pass_a_rule_that_reads_arguments() {
    let (key, folder) = (SigningKey::new("one"), Folder::new());
    let (keys, log) = (KeyServer::start(&[&key]), folder.path().join("received.log"));
    let rules = json!({"rules": [
        {"name": "no-secrets", "effect": "Deny", "when": r#"call.arguments.path == "/secret""#},
        {"name": "all", "effect": "Allow", "when": "true"},
    ]});
    let spec = json!({"authentication": keys.authentication(), "authorization": rules});
    let server = raw_server("raw", &["--log", log.to_str().unwrap()]);
    folder.write("manifests.yaml", &yaml(&[object("MCPGateway", "main", &spec), server]));
    let gateway = Gateway::start(&folder);
    let token = key.token(&json!({}));
    assert!(tools(&gateway.url(), &token).await.contains(&"raw__args".to_owned()));
    let bearer = format!("Bearer {token}");
    let headers = [&call_headers("raw__args")[..], &[("authorization", &bearer)]].concat();
    for (arguments, is_sent) in [
        (r#"{"path":"/open"}"#, true),
        (r#"{"path":"/secret"}"#, false),
        (r#"{"path":"/open","path":"/secret"}"#, false),
        (r#"{"path":"/secret","path":"/open"}"#, false),
        (r#"{"path":"/open","\u0070ath":"/secret"}"#, false),
    ] {
        let sent = || std::fs::read_to_string(&log).unwrap_or_default().matches("tools/call").count();
        let before = sent();
        let body = call_body("raw__args", arguments, &json!({}));
        let answer = Http::new().send(Method::POST, &gateway.url(), &headers, body).await.json();
        assert_eq!(sent() > before, is_sent, "{arguments}: {answer}");
        assert_eq!(answer["result"]["isError"] != true && answer["error"].is_null(), is_sent, "{arguments}: {answer}");
    }
}

/// An issuer that accepts connections and says nothing delays requests once, not one after another.
#[tokio::test]
async fn requests_wait_for_a_slow_issuer_together() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for client in listener.incoming().map_while(Result::ok) {
            counter.fetch_add(1, Ordering::SeqCst);
            open.push(client);
        }
    });
    let jwt = json!({"issuer": super::issuer::ISSUER, "audiences": [AUDIENCE], "jwks": {"uri": url}});
    let spec = json!({"authentication": {"jwt": [jwt]}});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    let (key, url) = (SigningKey::new("one"), gateway.url());
    let tokens = ["ann", "bob", "eve"].map(|subject| key.token(&json!({"sub": subject})));
    let (arguments, [ann, bob, eve]) = (json!({}), &tokens);
    let ask = |token| call(&url, token, "raw__args", &arguments);
    let answers = tokio::join!(ask(ann), ask(bob), ask(eve));
    assert_eq!([answers.0.status, answers.1.status, answers.2.status], [503; 3], "{}", answers.0.body);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
