//! The admin API: lists with pages, readiness, and who is kept out.

use axum::http::StatusCode;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::gateway::{Answered, Gateway, call, plan, read, request};

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
        ("GET", "/metrics", vec![("host", "evil.example")], 403, "Forbidden"),
        ("GET", "/metrics", vec![("origin", "http://localhost:9090")], 403, "Forbidden"),
    ] {
        let answer = ask(&gateway, method, path, &headers).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {answer:?}");
        assert_eq!(answer.json()["error"]["reason"], reason, "{path}");
    }
}
