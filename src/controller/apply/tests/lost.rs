//! A lease that is lost between two writes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::super::*;
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::lease::Leadership;
use crate::controller::liveness::Liveness;
use crate::controller::load_reports::LoadReports;
use crate::controller::status::tests::read;
use crate::domain::ids::Kind;

/// Writes a gateway's plan to an API server that accepts everything. The lease is lost during write number `lost_at`,
/// counted from one; `None` means never. Returns the names of the written objects, and the outcome.
async fn write(lost_at: Option<usize>) -> (Vec<String>, Result<(), ApplyError>) {
    let leadership = Leadership::default();
    leadership.set(Some(Instant::now() + Duration::from_secs(60)));
    let written: Arc<Mutex<Vec<String>>> = Arc::default();
    let (lost, seen) = (leadership.clone(), Arc::clone(&written));
    let server = tower::service_fn(move |request: Request<Body>| {
        let (lost, seen) = (lost.clone(), Arc::clone(&seen));
        async move {
            assert_eq!(request.method(), Method::PATCH);
            let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(name);
                seen.len()
            };
            if lost_at == Some(number) {
                lost.set(None);
            }
            let body = request.into_body().collect().await?.to_bytes();
            Ok::<_, kube::Error>(Response::new(Body::from(body.to_vec())))
        }
    });
    let writer = Writer::new(Client::new(server, "mcp"), leadership, Liveness::default().pulse("plans"));
    let gateway = read(Kind::MCPGateway, "main", &json!({"authentication": {"anonymous": {}}}), &json!({}));
    let mut inputs = compiled::inputs(&[], &Dereferenced::default());
    let planned = compiled::plan(&gateway, &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default());
    let outcome = SnapshotStore::default().write(&writer, &planned).await;
    let written = written.lock().unwrap().clone();
    (written, outcome)
}

#[tokio::test]
async fn nothing_is_written_after_the_write_during_which_the_lease_was_lost() {
    let (all, outcome) = write(None).await;
    outcome.unwrap();
    assert_eq!(all.iter().filter(|name| *name == "main").count(), 1, "the index is among {all:?}");
    assert!(all.len() > 1);
    for last in 1..all.len() {
        let (written, outcome) = write(Some(last)).await;
        assert_eq!(written, all[..last]);
        assert!(matches!(outcome, Err(ApplyError::Request { error: RequestError::NotLeading, .. })), "{outcome:?}");
    }
}
