//! The page `docs/identity.md`: its rules decide as their tests say, and its providers' tokens are accepted.

use serde_json::{Value, json};

use super::call;
use super::issuer::{KeyServer, SigningKey};
use crate::fixtures::checkout;
use crate::gateway::harness::{Folder, Gateway, run};
use crate::gateway::manifests::{object, raw_server, yaml};

/// The YAML blocks of a section of the page.
fn blocks(section: &str) -> Vec<Value> {
    let page = std::fs::read_to_string(checkout().join("docs/identity.md")).unwrap();
    let section = page.split_once(&format!("\n## {section}\n")).unwrap().1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let blocks = section.split("```yaml\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    blocks.map(|block| serde_saphyr::from_str(block).unwrap()).collect()
}

/// What `hawsepipe validate` says about a gateway with these rules, and whether it accepts them.
fn validated(authorization: &Value) -> (bool, String) {
    let spec = json!({"authentication": {"anonymous": {}}, "authorization": authorization});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let output = run(&["validate", folder.path().to_str().unwrap()]);
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn the_rules_of_the_cookbook_pass_their_tests_and_fail_all_others() {
    let recipes = blocks("Cookbook");
    assert_eq!(recipes.len(), 10);
    for mut recipe in recipes.into_iter().chain([blocks("Tests of rules")[0]["spec"]["authorization"].clone()]) {
        let (accepted, said) = validated(&recipe);
        assert!(accepted, "{recipe}: {said}");
        let tests = recipe["tests"].as_array_mut().unwrap();
        for test in &mut *tests {
            let other = if test["expect"] == "allow" { "deny" } else { "allow" };
            test["expect"] = json!(other);
        }
        let count = tests.len();
        let (accepted, said) = validated(&recipe);
        assert!(!accepted, "{recipe}");
        for at in 0..count {
            assert!(said.contains(&format!("spec.authorization.tests[{at}]: the test expects")), "{recipe}: {said}");
        }
    }
}

/// A gateway with the manifest of a provider, and its server. The keys are those of the test.
fn gateway(spec: &Value, keys: &KeyServer) -> (Folder, Gateway) {
    let mut spec = spec.clone();
    spec["authentication"]["jwt"][0]["jwks"] = json!({"uri": keys.url});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

/// Claims of a token as each provider documents them, and the change that the rule does not allow.
fn providers() -> [(Value, Value); 4] {
    [
        (
            json!({"iss": "https://keycloak.example.com/realms/company", "typ": "Bearer", "azp": "agent",
                "sub": "f0a0a2a0-1b1b-4c4c-8d8d-9e9e9e9e9e9e", "preferred_username": "ann", "scope": "openid profile",
                "realm_access": {"roles": ["offline_access"]}, "groups": ["staff"]}),
            json!({"groups": ["guests"]}),
        ),
        (
            json!({"iss": "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0",
                "aud": "66666666-7777-8888-9999-000000000000", "ver": "2.0", "sub": "AAAAAAAA", "oid": "ann-oid",
                "tid": "11111111-2222-3333-4444-555555555555", "roles": ["Mcp.Reader"], "scp": "mcp.read openid"}),
            json!({"roles": ["Mcp.Other"]}),
        ),
        (
            json!({"iss": "https://token.actions.githubusercontent.com", "repository": "octo-org/octo-repo",
                "sub": "repo:octo-org/octo-repo:ref:refs/heads/main", "repository_owner": "octo-org",
                "ref": "refs/heads/main", "ref_type": "branch", "event_name": "push", "run_id": "1"}),
            json!({"ref": "refs/heads/other"}),
        ),
        (
            json!({"iss": "https://kubernetes.default.svc.cluster.local", "sub": "system:serviceaccount:build:runner",
                "kubernetes.io": {"namespace": "build", "serviceaccount": {"name": "runner", "uid": "1"}}}),
            json!({"sub": "system:serviceaccount:web:app"}),
        ),
    ]
}

#[tokio::test]
async fn the_tokens_of_providers_are_accepted_as_the_page_says() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let specs = blocks("Providers");
    assert_eq!(specs.len(), providers().len());
    for (spec, (claims, denied)) in specs.iter().zip(providers()) {
        let (_folder, gateway) = gateway(spec, &keys);
        let allowed = call(&gateway.url(), &key.token(&claims), "raw__args", &json!({})).await;
        assert_eq!(allowed.json()["result"]["content"][0]["text"], "{}", "{claims}: {}", allowed.body);
        let mut other = claims.clone();
        other.as_object_mut().unwrap().extend(denied.as_object().unwrap().clone());
        let refused = call(&gateway.url(), &key.token(&other), "raw__args", &json!({})).await;
        assert!(!refused.body.contains(r#""text":"{}""#), "{other}: {}", refused.body);
        let foreign = json!({"iss": "https://another.test", "aud": claims["aud"]});
        assert_eq!(call(&gateway.url(), &key.token(&foreign), "raw__args", &json!({})).await.status, 401);
    }
}

#[tokio::test]
async fn rules_that_fail_a_test_are_not_taken_and_the_last_accepted_ones_stay() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let manifests = |rules: Value| {
        let spec = json!({"authentication": keys.authentication(), "authorization": rules});
        yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])])
    };
    let rule = |name: &str| json!([{"name": name, "effect": "Allow", "when": format!("identity.subject == {name:?}")}]);
    let ann = |expect: &str| json!([{"identity": {"subject": "ann"}, "tool": "raw__args", "expect": expect}]);
    let folder = Folder::with(&manifests(json!({"rules": rule("ann"), "tests": ann("allow")})));
    let gateway = Gateway::start(&folder);
    let [of_ann, of_bob] = ["ann", "bob"].map(|subject| key.token(&json!({"sub": subject})));
    let is_answered = async |token: &str| {
        let answer = call(&gateway.url(), token, "raw__args", &json!({})).await;
        answer.body.contains(r#""text":"{}""#)
    };
    assert!(is_answered(&of_ann).await && !is_answered(&of_bob).await);
    folder.write("manifests.yaml", &manifests(json!({"rules": rule("bob"), "tests": ann("allow")})));
    let logged = gateway.logged(|line| line["reason"] == "InvalidConfig");
    let words = logged["message"].as_str().unwrap();
    for part in ["spec.authorization.tests[0]", "`allow`", "\"ann\"", "no rule allows it", "last accepted rules stay"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(is_answered(&of_ann).await && !is_answered(&of_bob).await);
    // The same rules with a test that they pass are taken.
    folder.write("manifests.yaml", &manifests(json!({"rules": rule("bob"), "tests": ann("deny")})));
    let deadline = std::time::Instant::now() + crate::gateway::harness::SOON;
    while !is_answered(&of_bob).await {
        assert!(std::time::Instant::now() < deadline, "the rules are not in force");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!is_answered(&of_ann).await);
}

#[test]
fn a_test_that_describes_no_tool_or_no_client_is_refused() {
    for (test, words) in [
        (json!({"tool": 1, "expect": "deny"}), "`tool` is no name"),
        (json!({"tool": {"name": "a", "label": {}}, "expect": "deny"}), "unknown field `label`"),
        (json!({"tool": "", "expect": "deny"}), "`tool` is no tool of MCP"),
        (json!({"tool": "a", "identity": {"subject": "anonymous"}, "expect": "deny"}), "`identity` is not valid"),
        (json!({"tool": "a", "expect": "maybe"}), "spec.authorization.tests[0].expect"),
    ] {
        let (accepted, said) = validated(&json!({"rules": [], "tests": [test]}));
        assert!(!accepted && said.contains(words), "{test}: {said}");
    }
}
