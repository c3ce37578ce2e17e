//! `hawsepipe auth check`, and `hawsepipe explain -f --as`: what manifests mean for a client, without a gateway.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use super::issuer::{ISSUER, KeyServer, SigningKey};
use super::{AUDIENCE, call, tools};
use crate::gateway::harness::{Folder, Gateway, hawsepipe, run};
use crate::gateway::manifests::{object, raw_server, yaml};

fn folder(keys: &KeyServer, header: Option<&str>) -> Folder {
    let mut authentication = keys.authentication();
    authentication["apiKeys"] =
        json!({"header": header, "secretRefs": [{"name": "keys"}], "subjects": [{"name": "ci", "groups": ["robots"]}]});
    let rules = json!({"rules": [
        {"name": "staff", "effect": "Allow", "when": r#""staff" in identity.groups"#},
        {"name": "readers", "effect": "Allow", "scopes": ["mcp.read"], "when": r#"identity.subject == "bob""#},
        {"name": "not-joe", "effect": "Deny", "when": r#"identity.subject == "joe""#},
        {"name": "by-path", "effect": "Allow", "when": r#"identity.subject == "eve" && call.arguments.path == "/open""#},
    ]});
    let spec = json!({"authentication": authentication, "authorization": rules});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    std::fs::create_dir_all(folder.path().join("secrets/keys")).unwrap();
    folder.write("secrets/keys/ci", "key-of-ci-0123456789");
    folder
}

/// The JSON that the command prints about a credential and a tool, and its exit code.
fn checked(folder: &Folder, credential: &[&str]) -> (Value, Option<i32>) {
    let path = folder.path();
    let secrets = path.join("secrets");
    let manifests = path.join("manifests.yaml");
    let mut arguments =
        vec!["auth", "check", "-f", manifests.to_str().unwrap(), "--secrets-dir", secrets.to_str().unwrap()];
    arguments.extend(["--tool", "raw/args", "-o", "json"].iter().chain(credential));
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}")), output.status.code())
}

#[test]
fn a_credential_is_checked_as_a_gateway_does_and_the_rules_decide() {
    let (key, other) = (SigningKey::new("one"), SigningKey::new("one"));
    let keys = KeyServer::start(&[&key]);
    let folder = folder(&keys, Some("x-key"));
    for (claims, allowed, decision) in [
        (json!({"groups": ["staff"]}), json!(true), "allowed by the rule staff"),
        (json!({"sub": "bob"}), json!(false), "refused: the rule readers needs the scopes mcp.read"),
        (json!({"sub": "bob", "scope": "mcp.read"}), json!(true), "allowed by the rule readers"),
        (json!({"sub": "eve"}), json!(null), "listed; the rule by-path decides at the call"),
        (json!({"sub": "joe"}), json!(false), "denied by the rule not-joe"),
    ] {
        let (found, code) = checked(&folder, &["--token", &key.token(&claims)]);
        assert_eq!((&found["accepted"], &found["method"]), (&json!(true), &json!("jwt")), "{found}");
        assert_eq!(
            (&found["access"]["allowed"], &found["access"]["decision"]),
            (&allowed, &json!(decision)),
            "{found}"
        );
        let expected = allowed.as_bool().map_or(2, |allowed| i32::from(!allowed));
        assert_eq!(code, Some(expected), "{found}");
        assert_eq!((&found["issuer"], &found["claims"]["aud"]), (&json!(ISSUER), &json!(AUDIENCE)), "{found}");
        assert_eq!(found["access"]["rules"].as_array().unwrap().len(), 4, "{found}");
    }
    let (found, _) = checked(&folder, &["--api-key", "key-of-ci-0123456789"]);
    assert!(found["subject"] == "ci" && found["groups"] == json!(["robots"]), "{found}");
    for (credential, words) in [
        (&["--token", &other.token(&json!({}))][..], "the credential is not accepted: its signature is not valid"),
        (&["--token", &key.token(&json!({"exp": 1}))], "the credential is not accepted: it has expired"),
        (&["--api-key", "nothing"], "the credential is not accepted: it is no API key of this gateway"),
        (&[], "the gateway needs a credential: name one with --token or --api-key"),
    ] {
        let (found, code) = checked(&folder, credential);
        assert_eq!((&found["accepted"], &found["error"], code), (&json!(false), &json!(words), Some(1)), "{found}");
    }
}

/// `auth check` with the arguments of a call says what a gateway of the same manifests does.
#[tokio::test]
async fn a_call_is_checked_as_a_gateway_decides_about_it() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let folder = folder(&keys, Some("x-key"));
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", folder.path().join("secrets").to_str().unwrap()]);
    assert!(tools(&gateway.url(), &key.token(&json!({"groups": ["staff"]}))).await.contains(&"raw__args".to_owned()));
    for (claims, arguments) in [
        (json!({"groups": ["staff"]}), "{}"),
        (json!({"sub": "bob"}), r#"{"path":"/open"}"#),
        (json!({"sub": "eve"}), r#"{"path":"/open"}"#),
        (json!({"sub": "eve"}), r#"{"path":"/shut"}"#),
        (json!({"sub": "joe"}), "{}"),
    ] {
        let token = key.token(&claims);
        let (found, code) = checked(&folder, &["--token", &token, "--arguments", arguments]);
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let answer = call(&gateway.url(), &token, "raw__args", &arguments).await;
        let is_called =
            answer.status == 200 && answer.json()["result"]["isError"] != true && answer.json()["error"].is_null();
        assert_eq!(found["access"]["allowed"], is_called, "{found}, {}", answer.body);
        assert_eq!(code, Some(i32::from(!is_called)), "{found}");
    }
    let client = "subject=eve,issuer=https://login.test";
    for (more, expected) in [
        (&[][..], 2),
        (&["--arguments", r#"{"path":"/open"}"#], 0),
        (&["--arguments", r#"{"path":"/shut"}"#], 1),
        (&["--arguments", "[]"], 1),
    ] {
        let admin = gateway.admin().to_string();
        let output = run(&[&["explain", "raw__args", "--admin", &admin, "--as", client][..], more].concat());
        assert_eq!(output.status.code(), Some(expected), "{more:?} {output:?}");
    }
}

#[test]
fn a_token_is_read_from_the_standard_input_and_printed_nowhere() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let folder = folder(&keys, None);
    let token = key.token(&json!({"groups": ["staff"], "scope": "mcp.read"}));
    let manifests = folder.path().join("manifests.yaml");
    let mut child = hawsepipe()
        .args(["auth", "check", "-f", manifests.to_str().unwrap(), "--token", "-", "--tool", "raw__args"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{token}").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("ann (jwt of https://login.test)\n  groups: staff\n  scopes: mcp.read\n  claim aud: ")
            && said.contains("\nann: allowed by the rule staff\n"),
        "{said}"
    );
    let all = said + &String::from_utf8_lossy(&output.stderr);
    assert!(all.contains("there is no Secret") && !all.contains(&token), "{all}");
}

#[test]
fn explain_says_of_manifests_what_the_rules_mean_for_a_client() {
    let key = SigningKey::new("one");
    let folder = folder(&KeyServer::start(&[&key]), None);
    let manifests = folder.path().join("manifests.yaml");
    let explain = |client: &str| {
        let output = run(&["explain", "raw/args", "-f", manifests.to_str().unwrap(), "--as", client]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let said = explain("subject=ann,groups=staff");
    assert!(
        said.contains("ann: allowed by the rule staff\n  Allow staff: applies\n  Allow readers: does not apply\n"),
        "{said}"
    );
    assert!(explain("subject=joe").contains("joe: denied by the rule not-joe"));
    assert!(explain("joe").contains("is not of the form subject=NAME"));
}
