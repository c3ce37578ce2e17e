//! API keys of clients (`spec.authentication.apiKeys`).

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::issuer::{KeyServer, SigningKey};
use super::{Http, ask};
use crate::gateway::harness::{Folder, Gateway, SOON};
use crate::gateway::manifests::{object, raw_server, yaml};

const ANN: &str = "ann-key-0123456789";
const BOT: &str = "bot-key-9876543210";

fn digest(key: &str) -> String {
    let hex: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The values of Secret `keys`, and a gateway that accepts them.
fn start(authentication: &Value) -> (Folder, Folder, Gateway) {
    let secrets = Folder::new();
    std::fs::create_dir_all(secrets.path().join("keys")).unwrap();
    secrets.write("keys/ann", &format!("{ANN}\n"));
    secrets.write("keys/ci-bot", &digest(BOT));
    let rules = json!({"rules": [{"name": "ci", "effect": "Allow", "when":
        r#"identity.subject == "ann" || "ci" in identity.groups && identity.method == "apiKey""#}]});
    let spec = json!({"authentication": authentication, "authorization": rules});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
    (folder, secrets, gateway)
}

/// What a call with these headers is answered: the status, and the error or the text of the result.
async fn answer(gateway: &Gateway, headers: &[(&str, &str)]) -> (u16, String) {
    let answer = ask(&gateway.url(), "tools/call", Some("raw__args"), &json!({}), headers).await;
    (answer.status, answer.body)
}

async fn status(gateway: &Gateway, key: &str) -> u16 {
    answer(gateway, &[("authorization", &format!("Bearer {key}"))]).await.0
}

#[tokio::test]
async fn api_keys_are_accepted_as_long_as_their_secret_has_them() {
    let keys = json!({"secretRefs": [{"name": "keys"}], "subjects": [{"name": "ci-bot", "groups": ["ci"]}]});
    let (_folder, secrets, gateway) = start(&json!({"apiKeys": keys}));
    for key in [ANN, BOT] {
        let (status, body) = answer(&gateway, &[("authorization", &format!("Bearer {key}"))]).await;
        assert!(status == 200 && body.contains(r#""text":"{}""#), "{body}");
    }
    for (what, key) in [
        ("the beginning of a key", ANN[..ANN.len() - 1].to_owned()),
        ("more than a key", format!("{ANN}0")),
        ("the digest of a key", digest(BOT)),
        ("another case", ANN.to_uppercase()),
        ("the subject", "ci-bot".to_owned()),
    ] {
        let (status, body) = answer(&gateway, &[("authorization", &format!("Bearer {key}"))]).await;
        assert_eq!(status, 401, "{what}: {body}");
        assert!(body.contains("it is no API key of this gateway") && !body.contains(&key), "{what}: {body}");
    }
    let bearer = format!("Bearer {ANN}");
    let (doubled, body) = answer(&gateway, &[("authorization", &bearer), ("authorization", &bearer)]).await;
    assert!(doubled == 400 && body.contains("several Authorization headers"), "{body}");
    assert_eq!(status(&gateway, &"a".repeat(20 << 10)).await, 401);
    let (url, huge) = (gateway.url(), format!("Bearer {}", "a".repeat(1 << 20)));
    // The gateway does not read that much, so its answer may not be read either.
    let refused = Http::new().try_send(hyper::Method::POST, &url, &[("authorization", &huge)], "").await;
    assert!(refused.is_err() || refused.is_ok_and(|answer| answer.status == 431));
    rotation(&gateway, &secrets).await;
    let calls = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await;
    assert!(calls.body.contains(r#""principal":"ci-bot""#), "{}", calls.body);
    for canary in [ANN, BOT, &digest(BOT)[7..]] {
        assert!(!calls.body.contains(canary) && !gateway.log().concat().contains(canary), "{canary}");
    }
}

/// The Problems of the plan.
async fn problems(gateway: &Gateway) -> String {
    let status = Http::new().get(&format!("http://{}/api/v1/status", gateway.admin())).await;
    status.json()["problems"].to_string()
}

/// A key counts no longer once its Secret has another one.
async fn rotation(gateway: &Gateway, secrets: &Folder) {
    secrets.write("keys/ann", "ann-key-new");
    secrets.write("keys/cat", &format!("{BOT}\n"));
    secrets.write("keys/anonymous", "a-name-of-the-gateway");
    secrets.write("keys/dan", "sha256:abc");
    let deadline = std::time::Instant::now() + SOON;
    while status(gateway, "ann-key-new").await != 200 || status(gateway, BOT).await != 401 {
        assert!(std::time::Instant::now() < deadline, "the new keys are not in force");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(status(gateway, ANN).await, 401);
    for words in ["have the same key", "`sha256:` is not followed", "a name that the gateway uses itself"] {
        assert!(problems(gateway).await.contains(words), "{words}");
    }
}

#[tokio::test]
async fn the_header_of_api_keys_is_one_of_their_own_and_a_rejected_token_is_final() {
    let (key, foreign) = (SigningKey::new("one"), SigningKey::new("one"));
    let issuer = KeyServer::start(&[&key]);
    let mut both = issuer.authentication();
    both["apiKeys"] = json!({"secretRefs": [{"name": "keys"}, {"name": "none"}], "header": "X-API-Key"});
    let (_folder, _secrets, gateway) = start(&both);
    assert!(problems(&gateway).await.contains("there is no Secret default/none"));
    let (good, bad) = (format!("Bearer {}", key.token(&json!({}))), format!("Bearer {}", foreign.token(&json!({}))));
    let as_bearer = format!("Bearer {ANN}");
    for (headers, status, words) in [
        (vec![("x-api-key", ANN)], 200, "content"),
        (vec![("authorization", &*good)], 200, "content"),
        (vec![("authorization", &*as_bearer)], 401, "it is no JSON Web Token"),
        (vec![("x-api-key", &ANN[1..])], 401, "the API key is not accepted"),
        (vec![("x-api-key", ANN), ("x-api-key", ANN)], 400, "several API keys"),
        (vec![("authorization", &*good), ("x-api-key", ANN)], 400, "or a token besides"),
        (vec![("authorization", &*bad), ("x-api-key", ANN)], 400, "or a token besides"),
        (vec![("x-api-key", " ")], 401, "has no key"),
        (vec![], 401, "`Authorization: Bearer TOKEN`, or an API key: send `X-API-Key: KEY`"),
    ] {
        let (found, body) = answer(&gateway, &headers).await;
        assert!(found == status && body.contains(words), "{headers:?}: {found} {body}");
    }
    // As bearer tokens, both methods are tried, the token of an issuer by that issuer alone.
    both["apiKeys"]["header"] = json!("authorization");
    let (_folder, secrets, gateway) = start(&both);
    assert_eq!((status(&gateway, ANN).await, status(&gateway, &good[7..]).await), (200, 200));
    secrets.write("keys/eve", &bad[7..]);
    gateway.logged(|line| line["message"].as_str().is_some_and(|said| said.contains("plan in force")));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (found, body) = answer(&gateway, &[("authorization", &bad)]).await;
    assert!(found == 401 && body.contains("its signature is not valid"), "{body}");
}
