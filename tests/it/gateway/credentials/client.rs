//! OAuth client credentials (`spec.external.oauth`), with a real authorization server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Guarded, error_of_upstream, issuer, nowhere, secret, start, whoami};
use crate::gateway::harness::Folder;
use crate::gateway::http::Http;
use crate::gateway::parts::until;

#[tokio::test]
async fn the_gateway_gets_tokens_for_a_server_and_renews_one_that_the_server_refuses() {
    let (_issuer, url) = issuer(600);
    let (server, secrets) = (Guarded::start(&url), secret("secret\n"));
    let oauth = json!({"issuer": url, "scopes": ["mcp.read"]});
    let (_folder, gateway) = start(&server.url, &oauth, &secrets);
    let who = whoami(&gateway).await;
    assert_eq!((&who["client"], &who["scope"]), (&json!("ann"), &json!("mcp.read")), "{who}");
    whoami(&gateway).await;
    let first = server.tokens().await;
    assert_eq!(first.len(), 1, "one token for all requests");
    server.control(Method::POST, "/revoke").await;
    whoami(&gateway).await;
    let seen = server.control(Method::GET, "/seen").await;
    assert_eq!((seen["tokens"].as_array().unwrap().len(), &seen["refused"]), (2, &json!(1)), "renewed once");
    // The error of a server does not show the token to clients, and is in no log.
    server.control(Method::POST, "/echo").await;
    let call = async || Http::new().call(&gateway.url(), "guarded__whoami", &json!({}), &json!({})).await;
    assert_eq!(call().await["error"]["message"], "no: [secret]");
    // A server that accepts no token is not asked again and again.
    server.control(Method::POST, "/revoke/all").await;
    for _ in 0..3 {
        let refused = call().await.to_string();
        assert!(refused.contains("unauthorized: HTTP 401"), "{refused}");
    }
    let seen = server.control(Method::GET, "/seen").await;
    assert!(seen["refused"].as_u64().unwrap() <= 10, "{seen}");
    nowhere(&gateway, &server.tokens().await).await;
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end() {
    let (_issuer, url) = issuer(6);
    let (server, secrets) = (Guarded::start(&url), secret("secret"));
    let (_folder, gateway) = start(&server.url, &json!({"tokenURL": format!("{url}/token")}), &secrets);
    whoami(&gateway).await;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(800)).await;
        whoami(&gateway).await;
    }
    let seen = server.control(Method::GET, "/seen").await;
    assert_eq!(seen["refused"], 0, "no request had a token that had expired");
    assert!((2..=3).contains(&seen["tokens"].as_array().unwrap().len()), "{seen}");
}

#[tokio::test]
async fn a_gateway_that_gets_no_token_says_why_and_sends_nothing() {
    let (_issuer, url) = issuer(600);
    let server = Guarded::start(&url);
    let nobody = "http://127.0.0.1:9";
    for (oauth, words) in [
        (json!({"issuer": url, "clientID": "bob2"}), "Unauthorized: no access token: "),
        (json!({"issuer": format!("{url}/")}), "another issuer"),
        (json!({"issuer": nobody}), "ConnectFailed: no access token: 127.0.0.1:9/: no metadata: "),
        (json!({"tokenURL": format!("{url}/none")}), "404"),
        (json!({"tokenURL": format!("{url}/jwks")}), "no access token: "),
        (json!({"tokenURL": "http://169.254.169.254/token"}), "169.254.169.254 is a link-local address"),
    ] {
        let secrets = secret("hunter2-hunter2");
        let (_folder, gateway) = start(&server.url, &oauth, &secrets);
        let error = error_of_upstream(&gateway).await;
        assert!(error.contains(words), "{oauth}: {error}");
        nowhere(&gateway, &["hunter2".to_owned()]).await;
    }
    let (_folder, gateway) = start(&server.url, &json!({"issuer": url}), &Folder::new());
    let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json();
    let problem = &plan["problems"][0];
    assert_eq!(problem["field"], "spec.external.oauth", "{problem}");
    assert!(problem["message"].as_str().unwrap().starts_with("clientSecretRef: "), "{problem}");
    let seen = server.control(Method::GET, "/seen").await;
    assert_eq!((&seen["tokens"], &seen["refused"]), (&json!([]), &json!(0)), "nothing was sent");
}

/// Passes connections on to the issuer at `url`, but none while it is held.
struct HeldIssuer {
    url: String,
    held: watch::Sender<bool>,
    waiting: Arc<AtomicBool>,
}

impl HeldIssuer {
    async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (issuer, own) = (url.replace("http://", ""), listener.local_addr().unwrap());
        let (held, waiting) = (watch::Sender::new(false), Arc::new(AtomicBool::new(false)));
        let (hold, waits) = (held.clone(), Arc::clone(&waiting));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                waits.store(*hold.borrow(), Ordering::Relaxed);
                hold.subscribe().wait_for(|held| !held).await.unwrap();
                let mut server = TcpStream::connect(&issuer).await.unwrap();
                tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
            }
        });
        Self { url: format!("http://{own}"), held, waiting }
    }
}

#[tokio::test]
async fn a_call_that_waited_for_a_token_is_checked_again_before_it_is_sent() {
    let (_issuer, url) = issuer(1);
    let (server, secrets) = (Guarded::start(&url), secret("secret"));
    let issuer = HeldIssuer::before(&url).await;
    let (folder, gateway) = start(&server.url, &json!({"tokenURL": format!("{}/token", issuer.url)}), &secrets);
    whoami(&gateway).await;
    let calls = async || server.control(Method::GET, "/seen").await["calls"].clone();
    let before = calls().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    issuer.held.send_replace(true);
    let call = {
        let url = gateway.url();
        tokio::spawn(async move { Http::new().call(&url, "guarded__whoami", &json!({}), &json!({})).await })
    };
    until("the call waits", async || issuer.waiting.load(Ordering::Relaxed)).await;
    let written = std::fs::read_to_string(folder.path().join("manifests.yaml")).unwrap();
    let rules = r#""authorization":{"default":"Allow","rules":[{"name":"later","effect":"Deny","when":"true"}]},"authentication""#;
    folder.write("manifests.yaml", &written.replacen("\"authentication\"", rules, 1));
    until("the rule is in force", async || {
        Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body.contains("\"later\"")
    })
    .await;
    issuer.held.send_replace(false);
    let denied = call.await.unwrap();
    assert_eq!(denied["result"]["_meta"]["hawsepipe.dev/denied"]["rule"], "later", "{denied}");
    assert_eq!(calls().await, before, "nothing was sent");
}
