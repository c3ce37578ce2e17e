//! Tests of the rendered objects.

use serde_json::{Value, json};

use super::*;
use crate::api::upstream::MCPUpstreamSpec;
use crate::controller::owner::Owner;
use crate::controller::workload::{ImagePullPolicy, PodSettings};

fn pods(pull_policy: ImagePullPolicy) -> PodSettings {
    PodSettings { image: "gateway:1".to_owned(), pull_policy, assigned_ids: false }
}

/// Returns the objects of the upstream `files` in the namespace `mcp`, which the gateway `edge/main` takes.
fn desired(spec: &Value) -> DesiredServer {
    desired_with(spec, &pods(ImagePullPolicy::IfNotPresent))
}

fn desired_with(spec: &Value, pods: &PodSettings) -> DesiredServer {
    let spec: MCPUpstreamSpec = serde_json::from_value(spec.clone()).unwrap();
    let owner = Owner::upstream(ObjectKey::new("mcp", "files"), "u");
    let managed = spec.managed.as_ref().unwrap();
    let resolver =
        crate::controller::workload::Resolver { namespace: "mcp", domain: "cluster.local", service: &|_, _| None };
    let peers = resolver.peers(&targets(managed));
    let input = ServerInput { owner: &owner, spec: &spec, managed, pods };
    DesiredServer::of(&input, &[ObjectKey::new("edge", "main")].into(), &peers)
}

fn http(member: &str, value: Value) -> Value {
    let mut managed =
        json!({"image": "server:1", "transport": "StreamableHTTP", "ports": [{"name": "web", "port": 3001}]});
    managed[member] = value;
    json!({"managed": managed})
}

fn stdio(member: &str, value: Value) -> Value {
    json!({"managed": {"image": "server:1", "command": ["serve", "-v"], "args": ["/data"], member: value}})
}

/// Returns the workload, and its pods' spec.
fn workload(spec: &Value) -> (Value, Value) {
    let DesiredServer { deployment, stateful_set, .. } = desired(spec);
    let deployment = deployment.map(|deployment| deployment.body().clone());
    let body = deployment.or_else(|| stateful_set.map(|set| set.body().clone())).unwrap();
    let pod = body["spec"]["template"]["spec"].clone();
    (body, pod)
}

fn container(spec: &Value) -> Value {
    workload(spec).1["containers"][0].clone()
}

#[test]
fn a_server_that_listens_itself_has_a_deployment_and_its_ports() {
    let ports = json!([{"name": "web", "port": 3001}, {"name": "a-name-that-is-too-long", "port": 9100}]);
    let mut spec = http("ports", ports);
    spec["managed"]["port"] = json!("web");
    let (body, pod) = workload(&spec);
    assert_eq!((&body["kind"], &body["metadata"]["name"]), (&json!("Deployment"), &json!("files-mcp")));
    assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], "MCPUpstream");
    assert_eq!(body["spec"]["replicas"], 1);
    let labels = json!({"hawsepipe.dev/upstream": "files", "app.kubernetes.io/managed-by": "hawsepipe"});
    assert_eq!(body["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(pod["initContainers"], Value::Null);
    let container = &pod["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("server"), &json!("server:1")));
    for member in ["command", "args", "env", "imagePullPolicy", "resources"] {
        assert_eq!(container[member], Value::Null, "{member} is the image's, or the cluster's default");
    }
    let web = json!({"name": "web", "containerPort": 3001, "protocol": "TCP"});
    assert_eq!(container["ports"], json!([web, {"containerPort": 9100, "protocol": "TCP"}]));
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["tcpSocket"], json!({"port": 3001}), "{probe}");
    }
    let sysctls = |port: u16| {
        let (_, pod) = workload(&http("ports", json!([{"name": "web", "port": port}])));
        pod["securityContext"]["sysctls"].clone()
    };
    let low = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    assert_eq!((sysctls(80), sysctls(1024)), (low, Value::Null));
    let service = desired(&spec).service.unwrap().body()["spec"].clone();
    assert_eq!(service["selector"], json!({"hawsepipe.dev/upstream": "files"}));
    let of = |port: &Value| (port["name"].clone(), port["port"].clone(), port["targetPort"].clone());
    let ports: Vec<_> = service["ports"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(ports[0], (json!("web"), json!(3001), json!(3001)));
    assert_eq!((ports.len(), &ports[1].1), (2, &json!(9100)));
}

#[test]
fn a_server_on_stdio_runs_below_the_bridge() {
    let (body, pod) = workload(&stdio("path", json!("/x")));
    assert_eq!(body["kind"], "StatefulSet", "a process for each session is the default");
    assert_eq!(
        (&body["spec"]["serviceName"], &body["spec"]["podManagementPolicy"]),
        (&json!("files-mcp"), &json!("Parallel"))
    );
    let copy = &pod["initContainers"][0];
    assert_eq!(
        (&copy["name"], &copy["image"], &copy["imagePullPolicy"]),
        (&json!("bridge-copy"), &json!("gateway:1"), &json!("IfNotPresent"))
    );
    assert_eq!(copy["command"], json!(["/usr/local/bin/hawsepipe-bridge", "--install", "/hawsepipe/bridge"]));
    assert_eq!(copy["resources"], Value::Null, "the cluster's default");
    let resources = json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "1", "memory": "256Mi"}});
    let (_, limited) = workload(&stdio("resources", resources.clone()));
    assert_eq!(
        (&limited["initContainers"][0]["resources"], &limited["containers"][0]["resources"]),
        (&resources, &resources)
    );
    assert_eq!(copy["volumeMounts"], json!([{"name": "hawsepipe", "mountPath": "/hawsepipe"}]));
    let container = &pod["containers"][0];
    let command = ["/hawsepipe/bridge", "--path=/x", "--session=PerSession", "--idle-seconds=300", "--", "serve", "-v"];
    assert_eq!((&container["command"], &container["args"]), (&json!(command), &json!(["/data"])));
    assert_eq!(container["ports"], json!([{"name": "mcp", "containerPort": 8080, "protocol": "TCP"}]));
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"], json!({"path": "/healthz", "port": "mcp"}), "{probe}");
    }
    let mounts = json!([{"name": "hawsepipe-tmp", "mountPath": "/tmp"}, {"name": "hawsepipe", "mountPath": "/hawsepipe", "readOnly": true}]);
    assert_eq!(container["volumeMounts"], mounts);

    let mut shared = stdio("session", json!("Shared"));
    shared["timeouts"] = json!({"idleMs": 1500});
    let (body, pod) = workload(&shared);
    assert_eq!(body["kind"], "Deployment");
    let command = &pod["containers"][0]["command"];
    assert_eq!((&command[2], &command[3]), (&json!("--session=Shared"), &json!("--idle-seconds=2")));
    shared["timeouts"] = json!({"idleMs": 0});
    assert_eq!(self::container(&shared)["command"][3], "--idle-seconds=86400");
}

#[test]
fn what_is_written_of_the_container_is_in_it() {
    let env = json!([{"name": "LEVEL", "value": "warn"}, {"name": "EMPTY", "value": ""},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "files", "key": "token"}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "mode"}}}]);
    let mut spec = http("env", env.clone());
    let managed = &mut spec["managed"];
    managed["command"] = json!(["serve"]);
    managed["args"] = json!(["-v"]);
    managed["imagePullPolicy"] = json!("Always");
    managed["containerName"] = json!("files");
    managed["replicas"] = json!(3);
    managed["resources"] = json!({"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}});
    let (body, pod) = workload(&spec);
    assert_eq!(body["spec"]["replicas"], 3);
    let container = &pod["containers"][0];
    assert_eq!((&container["name"], &container["imagePullPolicy"]), (&json!("files"), &json!("Always")));
    assert_eq!((&container["command"], &container["args"]), (&json!(["serve"]), &json!(["-v"])));
    assert_eq!(container["resources"], spec["managed"]["resources"]);
    let mut written = env;
    written[1] = json!({"name": "EMPTY"});
    assert_eq!(container["env"], written, "an empty value is the default");
}

#[test]
fn what_is_written_of_the_pod_is_in_it() {
    let of_pod = json!({
        "labels": {"team": "a", "hawsepipe.dev/upstream": "other", "hawsepipe.dev/gateway": "main"},
        "annotations": {"note": "b", "container.apparmor.security.beta.kubernetes.io/server": "unconfined"},
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "priorityClassName": "high", "runtimeClassName": "gvisor", "imagePullSecrets": [{"name": "a"}], "runAsUser": 1000,
    });
    let mut spec = http("pod", of_pod.clone());
    spec["managed"]["imagePullSecrets"] = json!([{"name": "b"}, {"name": "a"}]);
    spec["managed"]["serviceAccountName"] = json!("reader");
    let (body, pod) = workload(&spec);
    let metadata = &body["spec"]["template"]["metadata"];
    assert_eq!(metadata["annotations"].as_object().unwrap().len(), 2, "nothing takes it out of `restricted`");
    let labels = json!({"team": "a", "hawsepipe.dev/upstream": "files", "app.kubernetes.io/managed-by": "hawsepipe"});
    assert_eq!((&metadata["labels"], &metadata["annotations"]["note"]), (&labels, &json!("b")));
    assert_eq!(pod["serviceAccountName"], "reader");
    assert!(desired(&spec).account.is_none());
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "a"}, {"name": "b"}]));
    let same = ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName"];
    for member in same.into_iter().chain(["runtimeClassName"]) {
        assert_eq!(pod[member], of_pod[member], "{member}");
    }
    let security = &pod["securityContext"];
    assert_eq!((&security["runAsUser"], &security["fsGroup"]), (&json!(1000), &json!(65532)));
}

#[test]
fn where_the_cluster_assigns_user_ids_only_the_spec_sets_one() {
    let assigned = PodSettings { assigned_ids: true, ..pods(ImagePullPolicy::IfNotPresent) };
    for (pod, user) in [(json!({}), Value::Null), (json!({"runAsUser": 1000}), json!(1000))] {
        let made = desired_with(&http("pod", pod), &assigned).deployment.unwrap();
        let security = &made.body()["spec"]["template"]["spec"]["securityContext"];
        assert_eq!((&security["runAsUser"], &security["fsGroup"]), (&user, &Value::Null));
    }
}

#[test]
fn without_settings_a_pod_has_no_token_and_few_rights() {
    for spec in
        [http("serviceAccountName", json!("")), stdio("pod", json!({"nodeSelector": {}, "runtimeClassName": ""}))]
    {
        let (_, pod) = workload(&spec);
        assert_eq!(
            (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
            (&json!("files-mcp"), &json!(false))
        );
        let account = desired(&spec).account.unwrap().body().clone();
        assert_eq!(
            (&account["metadata"]["name"], &account["automountServiceAccountToken"]),
            (&json!("files-mcp"), &json!(false))
        );
        let security = &pod["securityContext"];
        assert_eq!((&security["runAsUser"], &security["runAsNonRoot"]), (&json!(65532), &json!(true)));
        assert_eq!((&security["runAsGroup"], &security["fsGroup"]), (&json!(65532), &json!(65532)));
        let containers = pod["initContainers"].as_array().into_iter().chain(pod["containers"].as_array()).flatten();
        for container in containers {
            let security = &container["securityContext"];
            assert_eq!(
                (&security["allowPrivilegeEscalation"], &security["capabilities"]["drop"]),
                (&json!(false), &json!(["ALL"]))
            );
            let writes_nothing = container["name"] == "bridge-copy";
            assert_eq!(security["readOnlyRootFilesystem"] == true, writes_nothing, "images write beside their code");
        }
        assert_eq!((&pod["nodeSelector"], &pod["runtimeClassName"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn volumes_are_mounted_and_a_claim_makes_a_stateful_set() {
    let sources = [
        json!({"persistentVolumeClaim": {"claimName": "team-docs"}}),
        json!({"emptyDir": {"sizeLimit": "64Mi"}}),
        json!({"secret": {"secretName": "s"}}),
        json!({"configMap": {"name": "m"}}),
        json!({"image": {"reference": "data:1"}}),
    ];
    for (place, source) in sources.into_iter().enumerate() {
        let volume = |path: &str| {
            let mut volume = source.clone();
            volume["name"] = json!("data");
            volume["mountPath"] = json!(path);
            volume["readOnly"] = json!(place == 0);
            json!([volume])
        };
        let (body, pod) = workload(&http("volumes", volume("/data")));
        assert_eq!(body["kind"], if place == 0 { "StatefulSet" } else { "Deployment" }, "{source}");
        let mut expected = source.clone();
        expected["name"] = json!("data");
        if place == 0 {
            expected["persistentVolumeClaim"]["readOnly"] = json!(true);
        }
        assert_eq!(pod["volumes"], json!([expected, {"name": "hawsepipe-tmp", "emptyDir": {}}]));
        let mounts = &pod["containers"][0]["volumeMounts"];
        assert_eq!((&mounts[0]["mountPath"], &mounts[1]["mountPath"]), (&json!("/data"), &json!("/tmp")));
        assert_eq!(mounts[0]["readOnly"], if place == 0 { json!(true) } else { Value::Null });
        for path in ["/tmp", "/tmp/"] {
            let (_, pod) = workload(&http("volumes", volume(path)));
            assert_eq!(pod["volumes"].as_array().unwrap().len(), 1, "the user's is at {path}");
        }
    }
}

#[test]
fn an_upstream_that_is_off_has_no_pods_and_zero_is_not_absent() {
    let replicas = |spec: &Value| workload(spec).0["spec"]["replicas"].clone();
    assert_eq!(replicas(&http("replicas", json!(0))), 0);
    let mut off = http("replicas", json!(2));
    off["enabled"] = json!(false);
    assert_eq!(replicas(&off), 0);
    off["enabled"] = json!(true);
    assert_eq!(replicas(&off), 2);
}

#[test]
fn only_gateways_that_take_the_upstream_reach_it_and_it_reaches_what_is_written() {
    let policy = |spec: &Value| desired(spec).network_policy.unwrap().body()["spec"].clone();
    let spec = policy(&http("egress", json!(["10.0.0.7:443", "*.example.com:8443"])));
    assert_eq!(spec["podSelector"]["matchLabels"], json!({"hawsepipe.dev/upstream": "files"}));
    let gateway = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "edge"}},
        "podSelector": {"matchLabels": {"hawsepipe.dev/gateway": "main"}}});
    let port = |number: u16| json!([{"protocol": "TCP", "port": number}]);
    assert_eq!(spec["ingress"], json!([{"from": [gateway], "ports": port(3001)}]));
    let egress = spec["egress"].as_array().unwrap();
    assert_eq!(egress[0]["ports"].as_array().unwrap().len(), 4, "DNS");
    let address = json!({"to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}], "ports": port(443)});
    assert_eq!(egress[1..], [address, json!({"ports": port(8443)})]);
    let plain = policy(&http("path", json!("/mcp")));
    assert_eq!(plain["egress"].as_array().unwrap().len(), 1, "nothing but DNS");
    assert_eq!(plain["policyTypes"], json!(["Ingress", "Egress"]));

    let (spec, owner) = (http("path", json!("/mcp")), Owner::upstream(ObjectKey::new("mcp", "files"), "u"));
    let spec: MCPUpstreamSpec = serde_json::from_value(spec).unwrap();
    let pods = pods(ImagePullPolicy::Never);
    let input = ServerInput { owner: &owner, spec: &spec, managed: spec.managed.as_ref().unwrap(), pods: &pods };
    let ingress = |gateways: BTreeSet<ObjectKey>| {
        let policy = DesiredServer::of(&input, &gateways, &Peers::new()).network_policy.unwrap();
        policy.body()["spec"]["ingress"].clone()
    };
    assert_eq!(ingress(BTreeSet::new()), Value::Null, "nobody takes it");
    let many = ingress((0..257).map(|n| ObjectKey::new("edge", format!("gateway-{n}"))).collect());
    let any = json!({"matchExpressions": [{"key": "hawsepipe.dev/gateway", "operator": "Exists"}]});
    let theirs =
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["edge"]}]});
    assert_eq!(many[0]["from"], json!([{"namespaceSelector": theirs, "podSelector": any}]));
}

#[test]
fn a_gateway_stays_with_a_pod_unless_the_server_has_no_sessions() {
    let affinity = |spec: &Value| desired(spec).service.unwrap().body()["spec"]["sessionAffinity"].clone();
    let with = |mut spec: Value, era: &str| {
        spec["protocol"] = json!({"era": era});
        spec
    };
    assert_eq!(affinity(&http("path", json!("/mcp"))), "ClientIP");
    assert_eq!(affinity(&with(http("path", json!("/mcp")), "Modern")), "None");
    assert_eq!(affinity(&with(stdio("path", json!("/mcp")), "Modern")), "ClientIP");
}

#[test]
fn pods_carry_the_digest_of_their_template_and_a_number_of_pods_does_not_change_it() {
    let revision = |spec: &Value| desired(spec).pods.unwrap().template;
    let plain = http("path", json!("/mcp"));
    let digest = revision(&plain);
    assert_eq!(
        workload(&plain).0["spec"]["template"]["metadata"]["annotations"]["hawsepipe.dev/template"],
        json!(digest)
    );
    for same in [http("replicas", json!(5)), http("args", json!([])), http("egress", json!(["a.example:1"]))] {
        assert_eq!(revision(&same), digest, "{same}");
    }
    assert_ne!(revision(&http("image", json!("server:2"))), digest);
}
