//! The admin API: lists with pages, readiness, and access control.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::gateway::{Answered, Gateway, call, peer, plan, read, request};
use crate::config::compile::compile;
use crate::config::compile::tests::folder;
use crate::domain::health::ConnectionState;
use crate::domain::report::{PendingReport, Report};
use crate::web::{CheckToken, admin_router, openapi_document};

async fn ask(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)]) -> Answered {
    let service = TowerToHyperService::new(gateway.admin.clone());
    read(service.call(request(method, path, headers, "")).await.unwrap()).await
}

#[tokio::test]
async fn readiness_waits_for_the_first_plan() {
    let gateway = Gateway::idle();
    assert_eq!(ask(&gateway, "GET", "/healthz", &[]).await.text, "ok\n");
    let waits = ask(&gateway, "GET", "/readyz", &[]).await;
    assert_eq!(waits.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(waits.text.contains("no plan"));
    gateway.apply(plan()).await;
    assert_eq!(ask(&gateway, "GET", "/readyz", &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_cannot_be_told_that_all_is_in_force_does_not_wait_for_plugins() {
    let gateway = Gateway::idle();
    let (plan, _) = compile(&folder(), None);
    gateway.apply(plan).await;
    let waits = tokio::time::timeout(Duration::from_millis(1), gateway.engine.loads.wait_for_loads()).await;
    assert!(waits.is_err(), "no plugin is being loaded");
    let asked = ask(&gateway, "GET", "/api/v1/status?settled=true", &[]);
    let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.expect("it waits for a load");
    assert_eq!(
        (answer.status, &answer.json()["error"]["reason"]),
        (StatusCode::CONFLICT, &json!("NotSettled")),
        "{answer:?}"
    );
}

#[tokio::test]
async fn pages_of_calls() {
    let gateway = Gateway::start().await;
    let id = gateway.session().await;
    for tool in ["up__echo", "up__fails", "up__echo"] {
        gateway.post(&[("mcp-session-id", &id)], &call(tool, json!({}))).await;
    }
    let all = ask(&gateway, "GET", "/api/v1/calls", &[]).await.json();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["next"]), (3, &Value::Null));
    let first = ask(&gateway, "GET", "/api/v1/calls?limit=2", &[]).await.json();
    assert_eq!(first["items"][1]["outcome"], "rpc_error");
    let next = format!("/api/v1/calls?limit=2&cursor={}", first["next"].as_str().unwrap());
    let rest = ask(&gateway, "GET", &next, &[]).await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    let failed = ask(&gateway, "GET", "/api/v1/calls?tool=fails", &[]).await.json();
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn every_list_answers() {
    let gateway = Gateway::start().await;
    gateway.session().await;
    for (list, items) in [
        ("executions", 0),
        ("calls", 0),
        ("plugins", 0),
        ("workers", 0),
        ("chains", 0),
        ("upstreams", 1),
        ("tools", 5),
        ("sessions", 1),
        ("invocations", 0),
    ] {
        let answer = ask(&gateway, "GET", &format!("/api/v1/{list}"), &[]).await;
        assert_eq!(answer.json()["items"].as_array().map(Vec::len), Some(items), "{list}: {answer:?}");
    }
    let plan = ask(&gateway, "GET", "/api/v1/plan", &[]).await.json();
    assert_eq!(plan["plan"]["upstreams"][0]["key"]["name"], "up");
    let explained = ask(&gateway, "GET", "/api/v1/explain?tool=up__echo", &[]).await.json();
    assert_eq!(explained["upstreamTool"], "echo");
    let metrics = ask(&gateway, "GET", "/metrics", &[]).await;
    assert!(metrics.text.contains("hawsepipe_sessions{era=\"legacy\"} 1"), "{}", metrics.text);
}

#[tokio::test]
async fn errors_are_json_and_strangers_are_kept_out() {
    let gateway = Gateway::start().await;
    for (method, path, headers, status, reason) in [
        ("GET", "/api/v1/nothing", vec![], 404, "NotFound"),
        ("GET", "/api/v1/explain?tool=nothing", vec![], 404, "ToolNotFound"),
        ("GET", "/api/v1/explain", vec![], 400, "InvalidQuery"),
        ("GET", "/api/v1/calls?limit=0", vec![], 400, "InvalidLimit"),
        ("GET", "/api/v1/calls?limit=1001", vec![], 400, "InvalidLimit"),
        ("GET", "/api/v1/calls?limit=x", vec![], 400, "InvalidQuery"),
        ("GET", "/api/v1/calls?cursor=gone", vec![], 400, "InvalidCursor"),
        ("POST", "/api/v1/calls", vec![], 405, "MethodNotAllowed"),
        ("POST", "/metrics", vec![], 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/invocations/none", vec![], 405, "MethodNotAllowed"),
        ("GET", "/api/v1/invocations/none", vec![], 404, "InvocationNotFound"),
        ("POST", "/api/v1/invocations/none/cancel", vec![], 404, "InvocationNotFound"),
        ("POST", "/api/v1/invocations/none/cancel", vec![("content-type", "")], 415, "InvalidContentType"),
        ("POST", "/api/v1/invocations", vec![("content-type", "text/plain")], 415, "InvalidContentType"),
        ("POST", "/api/v1/invocations", vec![("origin", "http://localhost:9090")], 403, "Forbidden"),
        ("POST", "/api/v1/invocations", vec![("host", "evil.example")], 403, "Forbidden"),
        ("POST", "/api/v1/invocations", vec![], 400, "InvalidBody"),
        ("GET", "/api/v1/calls", vec![("host", "evil.example")], 403, "Forbidden"),
        ("GET", "/metrics", vec![("origin", "http://localhost:9090")], 403, "Forbidden"),
    ] {
        let answer = ask(&gateway, method, path, &headers).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {answer:?}");
        assert_eq!(answer.json()["error"]["reason"], reason, "{path}");
    }
    let message = ask(&gateway, "GET", "/api/v1/calls?limit=x", &[]).await.json()["error"]["message"].clone();
    assert_eq!(message, r#"the query of the URL: limit: must be a whole number from 1 to 1000; it is "x""#);
}

/// Over all operations of the API: a parameter that the document does not have is refused, and those that it has are named.
#[tokio::test]
async fn an_unknown_parameter_is_refused_with_the_names_of_those_that_are_known() {
    let gateway = Gateway::start().await;
    let document = crate::web::openapi_document();
    let mut checked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap().iter().filter(|_| path.starts_with("/api/")) {
            let url = format!("{}?nome=x", path.replace("{id}", "none"));
            let answer = ask(&gateway, &method.to_uppercase(), &url, &[]).await;
            assert_eq!(answer.status.as_u16(), 400, "{method} {url}: {answer:?}");
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.starts_with("the query of the URL: \"nome\" is unknown here; allowed: "), "{message}");
            for parameter in operation["parameters"].as_array().unwrap().iter().filter(|it| it["in"] == "query") {
                assert!(message.contains(parameter["name"].as_str().unwrap()), "{url}: {message}");
            }
            checked += 1;
        }
    }
    assert!(checked > 20);
    let message = ask(&gateway, "GET", "/api/v1/chains?plugin=x", &[]).await.json()["error"]["message"].clone();
    assert_eq!(message, r#"the query of the URL: "plugin" is unknown here; allowed: cursor, limit"#);
    for path in ["/healthz?verbose", "/readyz?x=1", "/metrics?name=x"] {
        assert_ne!(ask(&gateway, "GET", path, &[]).await.status.as_u16(), 400, "{path}");
    }
}

#[tokio::test]
async fn the_report_has_the_tag_of_its_content() {
    let gateway = Gateway::start().await;
    ask(&gateway, "GET", "/api/v1/tools", &[]).await;
    let first = ask(&gateway, "GET", "/api/v1/report", &[]).await;
    let report: Report = serde_json::from_str(&first.text).unwrap();
    let [upstream] = &report.upstreams[..] else { panic!("{report:?}") };
    assert_eq!((upstream.upstream.as_str(), upstream.connection_state), ("default/up", ConnectionState::Connected));
    assert_eq!((upstream.era.as_deref(), upstream.transport.as_deref()), (Some("Legacy"), Some("StreamableHTTP")));
    assert_eq!(upstream.last_connected_at.as_deref(), Some("1970-01-01T00:00:00.001Z"));
    assert_eq!((upstream.tool_count, upstream.tools.len()), (Some(5), 5));
    assert_eq!((upstream.tools[0].name.as_str(), upstream.tools[0].r#as.as_deref()), ("echo", Some("up__echo")));
    let tag = first.header("etag");
    let same = ask(&gateway, "GET", "/api/v1/report", &[("if-none-match", tag)]).await;
    assert_eq!((same.status, same.header("etag"), same.text.as_str()), (StatusCode::NOT_MODIFIED, tag, ""));
    let pending = PendingReport { revision: "r".into(), reason: "UnknownFormat".into(), message: "m".into() };
    gateway.engine.views.set_pending(Some(pending.clone()));
    let other = ask(&gateway, "GET", "/api/v1/report", &[("if-none-match", tag)]).await;
    assert_eq!(other.status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Report>(&other.text).unwrap().pending, Some(pending));
    gateway.engine.views.set_pending(None);
    assert_eq!(ask(&gateway, "GET", "/api/v1/report", &[]).await.text, first.text);
}

/// Returns a check that accepts only the token `good`.
fn check() -> CheckToken {
    Arc::new(|token| async move { (token == "good").then_some(()).ok_or("it is bad".to_owned()) }.boxed())
}

/// Sends a request over a connection between these two addresses.
async fn ask_over(
    gateway: &Gateway,
    check: Option<CheckToken>,
    (from, to): (&str, &str),
    path: &str,
    headers: &[(&str, &str)],
) -> Answered {
    let mut request = request("GET", path, headers, "");
    request.extensions_mut().insert(peer(from.parse::<IpAddr>().unwrap(), to.parse::<IpAddr>().unwrap()));
    let router = admin_router(Arc::clone(&gateway.engine), check);
    read(TowerToHyperService::new(router).call(request).await.unwrap()).await
}

#[tokio::test]
async fn from_elsewhere_a_token_is_needed() {
    let gateway = Gateway::start().await;
    let (here, mapped) = (("127.0.0.1", "127.0.0.1"), ("::ffff:127.0.0.1", "::1"));
    // A service mesh's sidecar connects from a loopback address to the pod's own address.
    let (there, sidecar) = (("10.0.0.9", "10.0.0.1"), ("127.0.0.6", "10.0.0.1"));
    let (good, bad) = (("authorization", "bearer good"), ("authorization", "Bearer bad"));
    let report = "/api/v1/report";
    for (check, ends, path, headers, status) in [
        (Some(check()), here, report, &[][..], 200),
        (Some(check()), mapped, report, &[], 200),
        (Some(check()), sidecar, report, &[], 401),
        (Some(check()), sidecar, report, &[good], 200),
        (None, sidecar, "/api/v1/calls", &[], 401),
        (Some(check()), there, report, &[], 401),
        (Some(check()), there, report, &[bad], 401),
        (Some(check()), there, report, &[("authorization", "Basic good")], 401),
        (Some(check()), there, report, &[good], 200),
        (None, there, report, &[good], 401),
        (Some(check()), there, report, &[good, ("host", "pod.example")], 200),
        (Some(check()), there, report, &[good, ("origin", "http://page.example")], 403),
        (Some(check()), there, "/api/v1/plan", &[good], 403),
        (Some(check()), there, "/api/v1/calls", &[good], 403),
        (Some(check()), there, "/api/v1/report/", &[good], 403),
        (None, there, "/readyz/", &[], 401),
    ] {
        let answer = ask_over(&gateway, check, ends, path, headers).await;
        assert_eq!(answer.status.as_u16(), status, "{ends:?} {path} {headers:?} {answer:?}");
        if status == 401 {
            assert_eq!(answer.json()["error"]["reason"], "Unauthorized");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
}

#[tokio::test]
async fn probes_and_scrapers_show_no_token() {
    let gateway = Gateway::start().await;
    let there = ("10.0.0.9", "10.0.0.1");
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = ask_over(&gateway, None, there, path, &[("host", "10.0.0.1:9090")]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let page = [("host", "10.0.0.1:9090"), ("origin", "http://page.example")];
        assert_eq!(ask_over(&gateway, None, there, path, &page).await.status, StatusCode::FORBIDDEN, "{path}");
        // A page that rebinds its name to this machine sends no Origin, because the request goes to its own host.
        let rebound = [("host", "page.example:9090")];
        let here = ("127.0.0.1", "127.0.0.1");
        assert_eq!(ask_over(&gateway, None, here, path, &rebound).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn loopback_is_not_enough_where_the_admin_port_authenticates() {
    let gateway = Gateway::start().await;
    let mut plan = plan();
    plan.gateway.admin_authentication = true;
    gateway.apply(plan).await;
    let here = ("127.0.0.1", "127.0.0.1");
    let refused = ask_over(&gateway, None, here, "/api/v1/calls", &[]).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.text.contains("a bearer token is needed"), "{refused:?}");
    assert_eq!(ask_over(&gateway, None, here, "/metrics", &[]).await.status, StatusCode::OK);
    let shown = [("authorization", "Bearer good")];
    assert_eq!(ask_over(&gateway, Some(check()), here, "/api/v1/report", &shown).await.status, StatusCode::OK);
}

/// Whoever adds a route that changes something has it in the audit trail: each is asked about something that is not there.
#[tokio::test]
async fn each_change_by_the_admin_api_is_a_row_of_the_audit_trail() {
    let gateway = Gateway::start().await;
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let mut seen = Vec::new();
    for path in paths.iter().filter(|(_, methods)| methods["post"].is_object()).map(|(path, _)| path) {
        gateway.audit.0.lock().unwrap().clear();
        let answer = ask(&gateway, "POST", &path.replace("{id}", "a%2Fb"), &[]).await;
        let row = match &gateway.audit.0.lock().unwrap()[..] {
            [row] => row.clone(),
            rows => panic!("{path}: {rows:?}"),
        };
        let outcome = answer.json()["error"]["reason"].as_str().unwrap_or("done").to_owned();
        assert_eq!((&row["kind"], &row["outcome"]), (&json!("admin"), &json!(outcome)), "{path} {answer:?}");
        let by = ["by", "method", "via", "address"].map(|member| row[member].as_str().unwrap().to_owned());
        assert_eq!(by, ["local", "local", "admin API", "127.0.0.1"], "{path}");
        seen.push(format!("{} {}", row["action"].as_str().unwrap(), row["target"].as_str().unwrap()));
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "answer run a/b",
            "cancel call a/b",
            "cancel invocation a/b",
            "cancel run a/b",
            "erase gateway default/hawsepipe",
            "invoke gateway default/hawsepipe",
            "resume gateway default/hawsepipe",
            "resume session a/b",
            "stop gateway default/hawsepipe",
            "stop session a/b",
        ]
    );
}

#[tokio::test]
async fn a_change_whose_client_leaves_is_a_row_with_an_unknown_outcome() {
    let gateway = Gateway::start().await;
    let mut request = request("POST", "/api/v1/stop", &[], "");
    // The body never ends.
    *request.body_mut() =
        axum::body::Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
    let service = TowerToHyperService::new(gateway.admin.clone());
    assert!(tokio::time::timeout(Duration::from_millis(20), service.call(request)).await.is_err());
    let rows = gateway.audit.0.lock().unwrap().clone();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&row["action"], &row["outcome"]), (&json!("stop"), &json!("unknown")));
}

#[tokio::test]
async fn an_invocation_is_the_target_of_its_row() {
    let gateway = Gateway::start().await;
    let service = TowerToHyperService::new(gateway.admin.clone());
    let body = json!({"toolName": "echo", "serverId": "up", "parameters": {}}).to_string();
    let created = read(service.call(request("POST", "/api/v1/invocations", &[], &body)).await.unwrap()).await;
    assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
    let target = format!("invocation {} of echo", created.json()["id"].as_str().unwrap());
    let rows = gateway.audit.0.lock().unwrap().clone();
    let row = rows.iter().find(|row| row["kind"] == "admin").unwrap();
    assert_eq!((&row["action"], &row["target"], &row["outcome"]), (&json!("invoke"), &json!(target), &json!("done")));
}

#[tokio::test]
async fn refused_credentials_are_listed_without_them() {
    let gateway = Gateway::start().await;
    let mut plan = plan();
    plan.gateway.admin_authentication = true;
    gateway.apply(plan).await;
    for _ in 0..2 {
        let headers = [("authorization", "Bearer hunter2")];
        assert_eq!(ask(&gateway, "GET", "/api/v1/refusals", &headers).await.status, StatusCode::UNAUTHORIZED);
    }
    gateway.apply(super::gateway::plan()).await;
    let listed = ask(&gateway, "GET", "/api/v1/refusals", &[]).await;
    let refused = &listed.json()["items"][0];
    assert_eq!(
        (&refused["listener"], &refused["count"], &refused["address"]),
        (&json!("admin"), &json!(2), &json!("127.0.0.1"))
    );
    assert!(!listed.text.contains("hunter2"), "{listed:?}");
}
