//! The status of an upstream whose server the operator runs.

use super::*;
use crate::controller::managed_state::ManagedServer;

fn upstream(status: &Value) -> LoweredObject {
    let managed = json!({"image": "i", "transport": "StreamableHTTP", "ports": [{"name": "mcp", "port": 1}]});
    read(Kind::MCPUpstream, "up", &json!({"managed": managed}), status)
}

fn with(server: ManagedServer, status: &Value) -> (StatusInput, LoweredObject) {
    let gateway = read(Kind::MCPGateway, "main", &json!({"authentication": {"anonymous": {}}}), &json!({}));
    let objects = [gateway, upstream(status)];
    let mut input = input(&objects, |revision| pods(&[Some(revision)]));
    input.managed = Arc::new([(objects[1].id.key.clone(), server)].into());
    let [_, upstream] = objects;
    (input, upstream)
}

fn server() -> ManagedServer {
    ManagedServer { uid: "u".to_owned(), generation: 3, kind: Some("Deployment"), ..ManagedServer::default() }
}

#[test]
fn what_is_wrong_with_the_server_comes_before_what_gateways_run() {
    let programmed = |server: ManagedServer| {
        let (input, upstream) = with(server, &json!({}));
        condition(&input, &upstream, "Programmed")
    };
    assert_eq!(programmed(server()).0, "True Programmed");
    let why = "pod up-mcp-1: container server: ErrImagePull: not found".to_owned();
    let not_ready = ManagedServer { not_ready: Some(why.clone()), ..server() };
    assert_eq!(programmed(not_ready.clone()), ("False WorkloadNotReady".to_owned(), why));
    let fault = Some((Reason::NameTaken, "there is a Service".to_owned()));
    let taken = ManagedServer { fault, ..not_ready.clone() };
    assert_eq!(programmed(taken), ("False NameTaken".to_owned(), "there is a Service".to_owned()));
    let of_before = ManagedServer { uid: "before".to_owned(), ..not_ready };
    assert_eq!(programmed(of_before).0, "True Programmed", "it is of an earlier object of the name");
}

#[test]
fn the_workload_is_named_and_stays_named_while_it_is_not_known() {
    let workload = |server: ManagedServer, status: &Value| {
        let (input, upstream) = with(server, status);
        of(&input, &upstream, "now")["workload"].clone()
    };
    let named = json!({"kind": "Deployment", "name": "up-mcp"});
    assert_eq!(workload(server(), &json!({})), named);
    let unknown = ManagedServer { kind: None, ..server() };
    assert_eq!(workload(unknown.clone(), &json!({})), Value::Null);
    assert_eq!(workload(unknown, &json!({"workload": named})), named);
}
