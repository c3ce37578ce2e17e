//! The tokens that a gateway accepts, and those that it does not.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};

use super::issuer::{KeyServer, SigningKey, claims_of};
use super::{AUDIENCE, Http, ask, call, tools};
use crate::fixtures::{fixture, node_module};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{object, raw_server, yaml};
use crate::gateway::parts::announced;

/// A gateway with this authentication, and this authorization if there is one.
fn start(authentication: &Value, authorization: Option<&Value>) -> (Folder, Gateway) {
    let mut spec = json!({"authentication": authentication});
    if let Some(authorization) = authorization {
        spec["authorization"] = authorization.clone();
    }
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

#[tokio::test]
async fn the_clients_of_an_authorization_server_see_and_do_what_a_rule_allows() {
    node_module("oidc-provider/package.json");
    let mut command = Command::new("node");
    command.arg(fixture("servers/issuer.mjs")).arg(AUDIENCE);
    let (_issuer, url) = announced(command);
    let authentication = json!({
        "jwt": [{"issuer": url, "audiences": [AUDIENCE]}],
        "resourceMetadata": {"resource": AUDIENCE},
    });
    let rule = json!({"name": "staff-echoes", "effect": "Allow",
        "when": r#""staff" in identity.groups && tool.upstreamName == "args""#});
    let (_folder, gateway) = start(&authentication, Some(&json!({"rules": [rule]})));
    let anonymous = ask(&gateway.url(), "tools/list", None, &json!({}), &[]).await;
    assert_eq!(anonymous.status, 401, "{}", anonymous.body);
    let challenge = anonymous.headers["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = "/.well-known/oauth-protected-resource/mcp";
    assert_eq!(challenge, format!("Bearer resource_metadata=\"https://mcp.test{metadata}\""));
    let metadata = Http::new().get(&format!("http://{}{metadata}", gateway.address())).await.json();
    assert_eq!(metadata["authorization_servers"], json!([url]), "{metadata}");
    assert_eq!(metadata["resource"], AUDIENCE);
    let (ann, bob) = (token_of(&url, "ann").await, token_of(&url, "bob").await);
    assert_eq!(tools(&gateway.url(), &ann).await, ["raw__args"]);
    assert!(tools(&gateway.url(), &bob).await.is_empty());
    let answer = call(&gateway.url(), &ann, "raw__args", &json!({"a": 1})).await.json();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a":1}"#, "{answer}");
    for (token, tool) in [(&ann, "raw__huge"), (&bob, "raw__args")] {
        let hidden = call(&gateway.url(), token, tool, &json!({})).await.json();
        let missing = call(&gateway.url(), token, "raw__none", &json!({})).await.json();
        let said = missing["error"]["message"].as_str().unwrap().replace("raw__none", tool);
        assert_eq!((&hidden["error"]["code"], hidden["error"]["message"].as_str()), (&json!(-32602), Some(&*said)));
    }
    let calls = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.json();
    let calls = calls["items"].as_array().unwrap();
    let answered: Vec<_> = calls.iter().filter(|call| call["outcome"] == "ok").collect();
    assert!(answered.len() == 1 && answered[0]["principal"] == "ann", "{calls:?}");
}

/// A token for a client of the authorization server.
async fn token_of(issuer: &str, client: &str) -> String {
    let form = format!(
        "grant_type=client_credentials&client_id={client}&client_secret=secret&scope=mcp.read&resource={}",
        AUDIENCE.replace(':', "%3A").replace('/', "%2F")
    );
    let media = [("content-type", "application/x-www-form-urlencoded")];
    // The provider authenticates clients by Basic, unless they say otherwise.
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{client}:secret"));
    let headers = [media[0], ("authorization", &*format!("Basic {basic}"))];
    let form = form.replace(&format!("&client_id={client}&client_secret=secret"), "");
    let answer = Http::new().send(hyper::Method::POST, &format!("{issuer}/token"), &headers, form).await;
    answer.json()["access_token"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

#[expect(clippy::too_many_lines, reason = "one table of faults")]
#[tokio::test]
async fn tokens_are_refused_for_what_is_wrong_with_them() {
    let (own, foreign) = (SigningKey::new("one"), SigningKey::new("one"));
    let keys = KeyServer::start(&[&own]);
    let (_folder, gateway) = start(&keys.authentication(), None);
    let (url, now) = (gateway.url(), get_current_timestamp());
    let good = own.token(&json!({}));
    assert_eq!(call(&url, &good, "raw__args", &json!({})).await.status, 200);
    let unsigned = |header: Value| {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.", part(&header), part(&claims_of(&json!({}))))
    };
    let hmac = Header { kid: Some("one".into()), ..Header::new(Algorithm::HS256) };
    let public = own.public().to_string();
    let confused = encode(&hmac, &claims_of(&json!({})), &EncodingKey::from_secret(public.as_bytes())).unwrap();
    let (pointing, unnamed) = (
        Header {
            jku: Some(format!("{}/evil", keys.url)),
            x5u: Some(keys.url.clone()),
            kid: Some("evil".into()),
            ..own.header()
        },
        Header { kid: Some("../../one".into()), ..own.header() },
    );
    for (what, token, words) in [
        ("alg none", unsigned(json!({"alg": "none", "kid": "one"})), "it is no JSON Web Token"),
        ("no signature", unsigned(json!({"alg": "ES256", "kid": "one"})), "its signature is not valid"),
        ("HS256 with the public key", confused, "its algorithm HS256 is not accepted"),
        (
            "another issuer",
            own.token_with(
                &Header { kid: Some("one".into()), ..Header::new(Algorithm::ES256) },
                &json!({"iss": "https://other.test"}),
            ),
            "no issuer that is accepted here",
        ),
        ("another key under the same name", foreign.token(&json!({})), "its signature is not valid"),
        ("jku and x5u", foreign.token_with(&pointing, &json!({})), "its issuer publishes no such key"),
        ("a path as kid", own.token_with(&unnamed, &json!({})), "its issuer publishes no such key"),
        ("expired", own.token(&json!({"exp": now - 60})), "it has expired"),
        ("no exp", own.token(&json!({"exp": null})), "it has no exp"),
        ("not yet valid", own.token(&json!({"nbf": now + 120})), "it is not valid yet"),
        ("another audience", own.token(&json!({"aud": "https://other.test"})), "it is for another audience"),
        ("no audience", own.token(&json!({"aud": null})), "it has no aud"),
        ("no subject", own.token(&json!({"sub": null})), "its claim sub is not a string"),
        ("the subject of nobody", own.token(&json!({"sub": "anonymous"})), "a name that the gateway uses itself"),
        ("crit", own.token_with(&Header { crit: Some(vec!["b64".into()]), ..own.header() }, &json!({})), "`crit`"),
        (
            "another type",
            own.token_with(&Header { typ: Some("logout+jwt".into()), ..own.header() }, &json!({})),
            "`typ`",
        ),
        ("a changed claim", forged(&good), "its signature is not valid"),
        ("no token", "abc".to_owned(), "it is no JSON Web Token"),
        ("longer than 16 KiB", "a".repeat((16 << 10) + 1), "it is longer than 16384 bytes"),
    ] {
        let answer = call(&url, &token, "raw__args", &json!({})).await;
        let challenge = answer.headers.get("www-authenticate").map_or("", |it| it.to_str().unwrap());
        assert_eq!(answer.status, 401, "{what}: {}", answer.body);
        assert!(answer.body.contains(words), "{what}: {}", answer.body);
        assert!(
            challenge.contains("error=\"invalid_token\"") && challenge.contains("resource_metadata="),
            "{challenge}"
        );
        assert!(!answer.body.contains(&token) && !gateway.log().concat().contains(&token), "{what}");
    }
    assert!(keys.asked() <= 2, "one fetch at first, and at most one for all the unknown keys");
    refused_requests(&url, &good).await;
}

/// The token with another subject and the same signature.
fn forged(token: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let claims = URL_SAFE_NO_PAD.encode(claims_of(&json!({"sub": "root"})).to_string());
    format!("{}.{claims}.{}", parts[0], parts[2])
}

/// A valid token in a place where it does not belong.
async fn refused_requests(url: &str, good: &str) {
    let bearer = format!("Bearer {good}");
    let in_query = format!("{url}?access_token={good}");
    for (url, headers, status, words) in [
        (url, vec![], 401, "this gateway needs a token"),
        (url, vec![("authorization", &*bearer), ("authorization", &*bearer)], 400, "several Authorization headers"),
        (&in_query, vec![], 400, "a token in its query"),
        (&in_query, vec![("authorization", &*bearer)], 400, "a token in its query"),
        (url, vec![("authorization", "Basic YTpi")], 401, "no bearer token"),
        (url, vec![("x-api-key", good)], 401, "this gateway needs a token"),
    ] {
        let answer = ask(url, "tools/list", None, &json!({}), &headers).await;
        assert_eq!(answer.status, status, "{headers:?} {}", answer.body);
        assert!(answer.body.contains(words), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_new_key_is_accepted_and_an_issuer_that_is_down_is_said() {
    let [first, second] = ["one", "two"].map(SigningKey::new);
    let keys = KeyServer::start(&[&first]);
    let (_folder, gateway) = start(&keys.authentication(), None);
    let status =
        async |key: &SigningKey| call(&gateway.url(), &key.token(&json!({})), "raw__args", &json!({})).await.status;
    assert_eq!(status(&first).await, 200);
    assert_eq!(status(&second).await, 401);
    keys.set(&[&first, &second]);
    // Keys are not fetched again at once.
    tokio::time::sleep(std::time::Duration::from_millis(10_200)).await;
    assert_eq!((status(&second).await, status(&first).await), (200, 200));
    let nobody = json!({"jwt": [{"issuer": "http://127.0.0.1:1", "audiences": [AUDIENCE]}]});
    let (_folder, gateway) = start(&nobody, None);
    let token = first.token(&json!({"iss": "http://127.0.0.1:1"}));
    let answer = call(&gateway.url(), &token, "raw__args", &json!({})).await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("the keys of the issuer http://127.0.0.1:1 cannot be read now"), "{}", answer.body);
}

#[tokio::test]
async fn the_keys_of_an_issuer_are_not_fetched_where_a_cloud_gives_out_credentials() {
    let own = SigningKey::new("one");
    for (uri, words) in [
        ("https://[64:ff9b::a9fe:a9fe]/keys", "169.254.169.254, which is a link-local address"),
        ("https://[fd00:ec2::23]/keys", "the metadata service of a cloud"),
    ] {
        let jwt = json!({"issuer": super::issuer::ISSUER, "audiences": [AUDIENCE], "jwks": {"uri": uri}});
        let (_folder, gateway) = start(&json!({"jwt": [jwt]}), None);
        let refused = call(&gateway.url(), &own.token(&json!({})), "raw__args", &json!({})).await;
        assert_eq!(refused.status, 503, "{}", refused.body);
        let said = gateway.logged(|line| line.to_string().contains(words)).to_string();
        assert!(said.contains("spec.upstreams.allowedAddresses"), "{uri}: {said}");
    }
}
