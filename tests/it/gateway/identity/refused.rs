//! What an operator sees of credentials that are refused, and of issuers that cannot be read.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::issuer::{ISSUER, KeyServer, SigningKey};
use super::{AUDIENCE, Http, call};
use crate::gateway::harness::{Folder, Gateway, hawsepipe, run};
use crate::gateway::manifests::{object, raw_server, yaml};

/// Serves the metadata of an issuer whose name ends with a slash. Returns the issuer without it.
fn issuer_with_slash() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let body = json!({"issuer": format!("{issuer}/"), "jwks_uri": format!("{issuer}/keys")}).to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = client.write_all((head + &body).as_bytes());
        }
    });
    issuer
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway answers all of it")]
async fn refused_credentials_and_unreadable_issuers_are_shown_to_operators() {
    let (key, other) = (SigningKey::new("one"), SigningKey::new("two"));
    let (keys, slash) = (KeyServer::start(&[&key]), issuer_with_slash());
    let mut authentication = keys.authentication();
    authentication["jwt"].as_array_mut().unwrap().push(json!({"issuer": slash, "audiences": [AUDIENCE]}));
    let spec = json!({"authentication": authentication, "audit": {"mode": "Required"}});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let store = folder.path().join("audit.db");
    let gateway = Gateway::start_with(&folder, &["--store", store.to_str().unwrap()]);
    let admin = gateway.admin().to_string();

    // `wait` and `status` name both issuers, and how they differ.
    let waited = run(&["wait", "--admin", &admin]);
    let said = text(&waited.stderr);
    assert_eq!(waited.status.code(), Some(1), "{said}");
    let both = format!("expected \"{slash}\", found \"{slash}/\". They differ by the slash at the end");
    assert!(said.contains(&both) && said.contains("IssuerUnavailable") && said.contains("jwt[1].issuer"), "{said}");
    assert!(text(&run(&["status", "--admin", &admin]).stdout).contains("IssuerUnavailable"));

    let good = key.token(&json!({}));
    assert_eq!(call(&gateway.url(), &good, "raw__args", &json!({})).await.status, 200);
    let unread = key.token(&json!({"iss": slash}));
    let refused = [
        ("WrongAudience", key.token(&json!({"aud": "https://other.test"}))),
        ("Expired", key.token(&json!({"exp": 1_000_000}))),
        ("WrongSignature", other.token_with(&key.header(), &json!({}))),
        ("UnknownKey", other.token(&json!({}))),
        ("UnknownIssuer", key.token(&json!({"iss": "https://evil.test\u{202e}"}))),
        ("NotAToken", "hunter2-hunter2".to_owned()),
        ("Unavailable", unread),
    ];
    for (reason, token) in &refused {
        let answer = call(&gateway.url(), token, "raw__args", &json!({})).await;
        assert_eq!(answer.status, if *reason == "Unavailable" { 503 } else { 401 }, "{reason}: {}", answer.body);
        assert!(answer.body.len() < 400 && !answer.body.contains(AUDIENCE), "{}", answer.body);
    }
    call(&gateway.url(), &refused[0].1, "raw__args", &json!({})).await;

    let json = run(&["auth", "refusals", "--admin", &admin, "-o", "json"]);
    let listed: Value = serde_json::from_slice(&json.stdout).unwrap_or_else(|_| panic!("{}", text(&json.stderr)));
    let items = listed["items"].as_array().unwrap();
    let of = |reason: &str| items.iter().find(|item| item["reason"] == reason).unwrap_or_else(|| panic!("{listed}"));
    for (reason, _) in &refused {
        assert_eq!(
            (&of(reason)["address"], &of(reason)["listener"]),
            (&json!("127.0.0.1"), &of("Expired")["listener"])
        );
    }
    let audience = of("WrongAudience");
    assert_eq!(
        (&audience["count"], &audience["issuer"], &audience["audience"]),
        (&json!(2), &json!(ISSUER), &json!("https://other.test"))
    );
    assert_eq!(audience["accepted"]["aud"], json!([AUDIENCE]));
    assert_eq!((&audience["accepted"]["kid"], &of("UnknownKey")["found"]["kid"]), (&json!(["one"]), &json!(["two"])));
    assert_eq!(of("Expired")["found"]["exp"], 1_000_000);
    assert!(of("Expired")["accepted"]["exp"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(of("UnknownIssuer")["accepted"]["iss"], json!([ISSUER, slash]));
    let shown = text(&run(&["auth", "refusals", "--admin", &admin, "-o", "wide"]).stdout);
    assert!(shown.contains("WrongAudience") && shown.contains("1970-01-12") && !shown.contains('\u{202e}'), "{shown}");

    let metrics = Http::new().get(&format!("http://{admin}/metrics")).await.body;
    let log = gateway.log();
    for (reason, token) in &refused {
        assert!(metrics.contains(&format!("outcome=\"refused\",reason=\"{reason}\"")), "{reason}: {metrics}");
        let lines = log.iter().filter(|line| line.contains("a credential is refused") && line.contains(reason)).count();
        assert_eq!(lines, 1, "{reason}: {log:?}");
        for shown in [&log.concat(), &text(&json.stdout), &shown] {
            // Neither the token nor its signature.
            assert!(!shown.contains(token.rsplit('.').next().unwrap()), "{reason}: {shown}");
        }
    }
    calls_with_credentials(&gateway, &good);
}

/// `hawsepipe call` sends a token of a flag, a file or a variable, and headers.
fn calls_with_credentials(gateway: &Gateway, token: &str) {
    let file = Folder::new();
    file.write("token", &format!("{token}\n"));
    let (url, file) = (gateway.url(), file.path().join("token"));
    let file = file.to_str().unwrap();
    let header = format!("Authorization: Bearer {token}");
    for (more, variable, succeeds) in [
        (&["--token", token][..], None, true),
        (&["--token-file", file], None, true),
        (&["--header", &header], None, true),
        (&[], Some(("HAWSEPIPE_TOKEN", token)), true),
        (&[], Some(("HAWSEPIPE_TOKEN_FILE", file)), true),
        (&[], None, false),
    ] {
        let arguments = [&["call", "raw__args", "{}", "--url", &url][..], more].concat();
        let called = hawsepipe().args(&arguments).envs(variable).output().unwrap();
        assert_eq!(called.status.success(), succeeds, "{more:?} {variable:?}: {}", text(&called.stderr));
    }
}
