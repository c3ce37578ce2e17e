//! Tests of requests that are not answered.

use super::*;

#[tokio::test]
async fn a_namespace_whose_requests_hang_delays_no_other() {
    let Running { servers, leadership, plans, mut managed, written, .. } = running(Fault::Hangs).await;
    let (term, changed) = (leadership.term(), Arc::<Notify>::default());
    let named = |namespace: &str, name: &str| {
        let mut object = read(Kind::MCPUpstream, name, &managed_spec(), &json!({}));
        object.id.key.namespace = namespace.to_owned();
        object
    };
    let mut objects: Vec<_> = (0..32).map(|number| named("slow", &format!("up-{number}"))).collect();
    let _loop = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(servers.run(changed)));
    // The second one is added while requests hang.
    for name in ["up", "more"] {
        objects.push(named("ns", name));
        plan_all(&plans, term, &objects);
        let is_told = managed.wait_for(|servers| servers.contains_key(&ObjectKey::new("ns", name)));
        tokio::time::timeout(Duration::from_secs(30), is_told).await.expect("in time").unwrap();
        let paths = written.lock().unwrap().clone();
        assert!(paths.iter().any(|path| path.ends_with(&format!("/deployments/{name}-mcp"))), "{paths:?}");
    }
    assert!(managed.borrow().keys().all(|key| key.namespace == "ns"));
}
