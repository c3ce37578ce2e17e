//! Tests of how a gateway's spec determines its pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::load_reports::LoadReports;
use crate::controller::manifest::APPLIED;
use crate::controller::planned_gateway::PlannedGateway;
use crate::controller::status::tests::read;
use crate::domain::ids::Kind;

/// Returns a gateway `ns/main` with these members of its spec, and an upstream whose headers come from these keys of
/// Secrets.
fn planned(spec: Value, headers: &[(&str, &str)]) -> PlannedGateway {
    let header = |(n, (name, key)): (usize, &(&str, &str))| json!({"name": format!("X-{n}"), "valueFrom": {"secretKeyRef": {"name": name, "key": key}}});
    let headers: Vec<_> = headers.iter().enumerate().map(header).collect();
    let upstream = (Kind::MCPUpstream, "up", json!({"external": {"url": "http://up/mcp", "headers": headers}}));
    planned_with(spec, &[upstream])
}

/// Returns a gateway `ns/main` with these members of its spec, and these other objects.
fn planned_with(spec: Value, others: &[(Kind, &str, Value)]) -> PlannedGateway {
    let mut whole = json!({"authentication": {"anonymous": {}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let none = json!({});
    let others = others.iter().map(|(kind, name, spec)| read(*kind, name, spec, &none));
    let objects: Vec<_> = [read(Kind::MCPGateway, "main", &whole, &none)].into_iter().chain(others).collect();
    let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
    compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default())
}

pub(super) fn settings() -> WorkloadSettings {
    let pods = PodSettings {
        image: "registry.example.com/hawsepipe:1".into(),
        pull_policy: ImagePullPolicy::IfNotPresent,
        assigned_ids: false,
    };
    WorkloadSettings { pods, cluster_domain: "cluster.test".into(), operator: "system/operator".into() }
}

fn workload(planned: &PlannedGateway) -> Workload {
    let (settings, spec) = (settings(), planned.spec.as_ref().expect("the spec is valid"));
    Workload::of(&WorkloadInput::new(&planned.owner, spec, &settings, [&planned.plan, &planned.plan]), Ok(None))
}

fn deployment(spec: Value) -> Value {
    workload(&planned(spec, &[])).deployment.unwrap().body().clone()
}

/// Returns the pod spec and the container of a gateway with these members of its spec.
fn pod(spec: Value) -> (Value, Value) {
    let template = deployment(spec)["spec"]["template"].clone();
    (template["spec"].clone(), template["spec"]["containers"][0].clone())
}

/// Asserts that the Kubernetes type `K` has every field of `body`.
fn is_known<K: Serialize + DeserializeOwned>(body: &Value) {
    let typed: K = serde_json::from_value(body.clone()).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), *body);
}

#[test]
fn every_field_is_one_of_kubernetes_and_every_object_is_named_and_owned_alike() {
    let spec = json!({
        "replicas": 3, "disruptionBudget": {"minAvailable": 1},
        "listeners": [{"name": "http", "port": 80}], "plugins": {"pluginDirFrom": {"claimRef": {"name": "code"}}},
        "service": {"type": "NodePort", "annotations": {"a": "b"}},
        "pod": {"imagePullSecrets": [{"name": "pull"}], "priorityClassName": "high", "runtimeClassName": "gvisor"},
    });
    let Workload { service, deployment, budget, .. } = workload(&planned(spec, &[("api", "key")]));
    let (service, deployment, budget) = (service.unwrap(), deployment.unwrap(), budget.unwrap());
    is_known::<Service>(service.body());
    is_known::<Deployment>(deployment.body());
    is_known::<PodDisruptionBudget>(budget.body());
    for body in [service.body(), deployment.body(), budget.body()] {
        let metadata = &body["metadata"];
        assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("main-gateway"), &json!("ns")));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u");
        assert!(metadata["annotations"][APPLIED].is_string());
    }
    let selector = json!({"hawsepipe.dev/gateway": "main"});
    assert_eq!(service.body()["spec"]["selector"], selector);
    assert_eq!(deployment.body()["spec"]["selector"]["matchLabels"], selector);
    assert_eq!(budget.body()["spec"]["selector"]["matchLabels"], selector);
}

#[test]
fn the_number_of_pods_is_two_what_the_spec_says_or_the_least_of_autoscaling() {
    assert_eq!(deployment(json!({}))["spec"]["replicas"], 2);
    assert_eq!(deployment(json!({"replicas": 0}))["spec"]["replicas"], 0);
    assert_eq!(deployment(json!({"autoscaling": {"maxReplicas": 4}}))["spec"]["replicas"], 1);
    assert_eq!(deployment(json!({"autoscaling": {"minReplicas": 3, "maxReplicas": 4}}))["spec"]["replicas"], 3);
}

#[test]
fn autoscaling_is_by_the_cpu_that_pods_request() {
    let autoscaler = |spec: Value| workload(&planned(spec, &[])).autoscaler.map(|made| made.body().clone());
    assert_eq!(autoscaler(json!({"replicas": 3})), None);
    let made = autoscaler(json!({"autoscaling": {"maxReplicas": 4}})).unwrap();
    is_known::<HorizontalPodAutoscaler>(&made);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "main-gateway"});
    assert_eq!(made["spec"]["scaleTargetRef"], target);
    assert_eq!((&made["spec"]["minReplicas"], &made["spec"]["maxReplicas"]), (&json!(1), &json!(4)));
    let percent = |made: &Value| made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].clone();
    assert_eq!(percent(&made), 70);
    let written = json!({"minReplicas": 2, "maxReplicas": 4, "targetCPUUtilizationPercentage": 50});
    let made = autoscaler(json!({"autoscaling": written})).unwrap();
    assert_eq!((&made["spec"]["minReplicas"], percent(&made)), (&json!(2), json!(50)));
    let requests = &pod(json!({})).1["resources"]["requests"];
    assert_eq!(requests["cpu"], "500m", "utilization is relative to the requests");
}

#[test]
fn a_route_leads_to_each_open_listener_and_has_no_timeout() {
    let route = |spec: Value| workload(&planned(spec, &[])).route.map(|made| made.body().clone());
    assert_eq!(route(json!({})), None);
    let parents = json!([{"name": "edge", "namespace": "infra", "sectionName": "https"}, {"name": "inner"}]);
    let written = json!({"parentRefs": parents, "hostnames": ["MCP.example.com"]});
    let closed = json!({"certificateSecretRef": {"name": "tls"}, "clientCASecretRef": {"name": "ca", "key": "ca.crt"}});
    let made = route(json!({"route": written, "listeners": [
        {"name": "a", "port": 1}, {"name": "b", "port": 2, "path": "/b/mcp"}, {"name": "c", "port": 3, "path": "/c/"},
        {"name": "a-too", "port": 4, "path": "/mcp"}, {"name": "closed", "port": 5, "path": "/d/mcp", "tls": closed},
    ]}));
    let made = made.unwrap();
    assert_eq!(made["metadata"]["name"], "main-gateway");
    assert_eq!((&made["spec"]["parentRefs"], &made["spec"]["hostnames"]), (&parents, &json!(["mcp.example.com"])));
    let rule = |prefix: &str, port: u16| {
        json!({"matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
            "backendRefs": [{"name": "main-gateway", "port": port}], "timeouts": {"request": "0s"}})
    };
    assert_eq!(made["spec"]["rules"], json!([rule("/", 1), rule("/b", 2), rule("/c", 3)]));
    let jwt = json!([{"issuer": "https://login.test", "audiences": ["a"]}]);
    let metadata = json!({"jwt": jwt, "resourceMetadata": {"resource": "https://mcp.example.com/b/mcp"}});
    let listeners = json!([{"name": "b", "port": 2, "path": "/b/mcp"}]);
    let made = route(json!({"route": written, "listeners": listeners, "authentication": metadata})).unwrap();
    assert_eq!(made["spec"]["rules"][1], rule("/.well-known/oauth-protected-resource/b/mcp", 2), "{made}");
    let listeners = json!([{"name": "closed", "port": 5, "tls": closed}]);
    assert_eq!(route(json!({"route": written, "listeners": listeners})), None, "it would lead nowhere");
}

#[test]
fn a_pod_may_disrupt_unless_the_spec_says_otherwise() {
    let budget = |spec: Value| workload(&planned(spec, &[])).budget.unwrap().body()["spec"].clone();
    assert_eq!(budget(json!({}))["maxUnavailable"], 1);
    let written = budget(json!({"disruptionBudget": {"minAvailable": 2}}));
    assert_eq!((&written["minAvailable"], &written["maxUnavailable"]), (&json!(2), &Value::Null));
}

#[test]
fn the_container_runs_the_gateway_for_its_operator() {
    let (pod, container) = pod(json!({"admin": {"port": 9191}}));
    let args = json!([
        "gateway",
        "--name=main",
        "--namespace=ns",
        "--operator=system/operator",
        "--admin=:9191",
        "--drain-seconds=55",
        "--state-dir=/var/lib/hawsepipe",
        "--secrets-dir=/run/secrets/hawsepipe",
        "--seal-key-file=/run/secrets/hawsepipe/main-gateway-seal/key",
    ]);
    assert_eq!(container["args"], args);
    let advertise =
        json!([{"name": "HAWSEPIPE_GATEWAY_ADVERTISE", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    assert_eq!(container["env"], advertise);
    assert_eq!(container["image"], "registry.example.com/hawsepipe:1");
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["terminationMessagePolicy"], "File", "no line of its log is told in a status");
    let ports = json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"},
        {"name": "admin", "containerPort": 9191, "protocol": "TCP"}]);
    assert_eq!(container["ports"], ports);
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "admin"}), "{probe}");
    }
    assert_eq!(pod["serviceAccountName"], "main-gateway");
    assert_eq!(pod["terminationGracePeriodSeconds"], 60);
    assert_eq!(pod["securityContext"]["sysctls"], Value::Null);
}

#[test]
fn each_listener_has_a_port_of_the_service_and_of_the_container() {
    let spec = json!({"listeners": [
        {"name": "low", "port": 80, "path": "/a/mcp"}, {"name": "a-name-too-long-for-ports", "port": 8081},
        {"name": "admin", "port": 8082}, {"name": "1", "port": 8083},
    ]});
    let planned = planned(spec, &[]);
    let Workload { service, deployment, .. } = workload(&planned);
    let ports = |ports: &Value, members: [&str; 2]| -> Vec<Value> {
        ports.as_array().unwrap().iter().map(|port| json!([port[members[0]], port[members[1]]])).collect()
    };
    let of_service = &service.unwrap().body()["spec"]["ports"].clone();
    let expected =
        [json!(["low", 80]), json!(["a-name-too-long-for-ports", 8081]), json!(["admin", 8082]), json!(["1", 8083])];
    assert_eq!(ports(of_service, ["name", "port"]), expected);
    let pod = deployment.unwrap().body()["spec"]["template"]["spec"].clone();
    let of_container = ports(&pod["containers"][0]["ports"], ["name", "containerPort"]);
    let expected =
        [json!(["low", 80]), json!([null, 8081]), json!([null, 8082]), json!([null, 8083]), json!(["admin", 9090])];
    assert_eq!(of_container, expected);
    let sysctls = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    assert_eq!(pod["securityContext"]["sysctls"], sysctls, "the user of the image may listen on port 80");
    let urls = addresses(&planned.owner, &listeners(&planned.plan));
    assert_eq!(urls[..2], ["http://main-gateway.ns.svc:80/a/mcp", "http://main-gateway.ns.svc:8081/mcp"]);
}

#[test]
fn keys_of_secrets_are_mounted_by_name_and_impossible_ones_keep_no_pod_from_starting() {
    let named = [("b", "two"), ("b", "one"), ("a", "key"), ("no-name", "key"), ("c", "no-key")];
    let store = json!({"store": {"postgres": {"urlSecretRef": {"name": "db", "key": "url"}}}});
    let mut planned = planned(json!({"history": store}), &named);
    // As an earlier version stored them, whose schema did not refuse such names.
    let stored = serde_json::to_string(&*planned.plan).unwrap().replace("no-name", "a/b").replace("no-key", "../key");
    planned.plan = Arc::new(serde_json::from_str(&stored).unwrap());
    let pod = workload(&planned).deployment.unwrap().body()["spec"]["template"]["spec"].clone();
    let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "secrets").unwrap();
    let secret = |name: &str, keys: &[&str]| {
        let items: Vec<_> = keys.iter().map(|key| json!({"key": key, "path": format!("{name}/{key}")})).collect();
        json!({"secret": {"name": name, "optional": true, "items": items}})
    };
    assert_eq!(
        volume["projected"]["sources"],
        json!([
            secret("a", &["key"]),
            secret("b", &["one", "two"]),
            secret("db", &["url"]),
            secret("main-gateway-seal", &["key"])
        ])
    );
    let container = &pod["containers"][0];
    let mounted = json!({"name": "secrets", "mountPath": "/run/secrets/hawsepipe", "readOnly": true});
    assert!(container["volumeMounts"].as_array().unwrap().contains(&mounted));
    assert!(container["args"].as_array().unwrap().contains(&json!("--secrets-dir=/run/secrets/hawsepipe")));
}

#[test]
fn session_ids_are_sealed_with_the_operators_key_or_the_one_that_the_spec_names() {
    let named = json!({"sealingKeySecretRef": {"name": "own", "key": "keys.txt"}});
    for (sessions, secret, seals) in [(named, "own/keys.txt", false), (json!({}), "main-gateway-seal/key", true)] {
        let workload = workload(&planned(json!({"sessions": sessions}), &[]));
        assert_eq!(workload.seals, seals, "{secret}");
        let pod = workload.deployment.unwrap().body()["spec"]["template"]["spec"].clone();
        let argument = json!(format!("--seal-key-file=/run/secrets/hawsepipe/{secret}"));
        assert!(pod["containers"][0]["args"].as_array().unwrap().contains(&argument), "{pod:#}");
        let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "secrets").unwrap();
        let source = &volume["projected"]["sources"][0]["secret"];
        assert_eq!((&source["items"][0]["path"], &source["optional"]), (&json!(secret), &json!(true)));
    }
}

#[test]
fn plugins_are_those_of_the_image_or_of_a_volume() {
    let volume = |from: Value| {
        let (pod, container) = pod(json!({"plugins": {"pluginDir": "/code", "pluginDirFrom": from}}));
        let mounted = json!({"name": "plugins", "mountPath": "/code", "readOnly": true});
        assert!(container["volumeMounts"].as_array().unwrap().contains(&mounted));
        let mut volume = pod["volumes"].as_array().unwrap().last().unwrap().clone();
        volume.as_object_mut().unwrap().remove("name");
        volume
    };
    let image = json!({"reference": "registry.example.com/plugins:1", "pullPolicy": "Always"});
    assert_eq!(volume(json!({"image": image})), json!({"image": image}));
    assert_eq!(volume(json!({"configMapRef": {"name": "code"}})), json!({"configMap": {"name": "code"}}));
    let claim = json!({"persistentVolumeClaim": {"claimName": "code", "readOnly": true}});
    assert_eq!(volume(json!({"claimRef": {"name": "code"}})), claim);
    let (pod, _) = pod(json!({}));
    assert!(!pod["volumes"].to_string().contains("plugins"));
}

#[test]
fn images_of_plugins_that_run_are_mounted_once_and_pulled_with_their_secrets() {
    let plugin = |name: &'static str, reference: &str, secret: &str, enabled: bool| {
        let image = json!({"reference": reference, "path": "dist/a.mjs", "pullSecrets": [{"name": secret}]});
        (Kind::Plugin, name, json!({"source": {"image": image}, "enabled": enabled}))
    };
    let entries: Vec<_> = ["one", "other", "same", "off"].map(|name| json!({"name": name})).into();
    let chain = (Kind::PluginChain, "checks", json!({"phase": "Request", "entries": entries}));
    let spec = json!({"pod": {"imagePullSecrets": [{"name": "pull"}]}});
    let plugins = [
        plugin("one", "r.example/a:1", "pull", true),
        plugin("other", "r.example/b:1", "for-b", true),
        plugin("same", "r.example/a:1", "for-a", true),
        plugin("off", "r.example/off:1", "for-off", false),
        plugin("unused", "r.example/unused:1", "for-unused", true),
    ];
    let planned = planned_with(spec, &[&plugins[..], &[chain]].concat());
    let deployment = workload(&planned).deployment.unwrap().body().clone();
    is_known::<Deployment>(&deployment);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}, {"name": "for-a"}, {"name": "for-b"}]));
    let volumes = pod["volumes"].as_array().unwrap().iter().filter(|volume| !volume["image"].is_null());
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mut mounted: Vec<_> = volumes
        .map(|volume| {
            let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]).unwrap();
            assert_eq!(mount["readOnly"], true);
            (volume["image"]["reference"].as_str().unwrap(), mount["mountPath"].as_str().unwrap())
        })
        .collect();
    mounted.sort_unstable();
    let path = |name: &str| planned.plan.plugins.iter().find(|p| p.key.name == name).unwrap().path.clone().unwrap();
    assert_eq!(mounted.iter().map(|(reference, _)| *reference).collect::<Vec<_>>(), ["r.example/a:1", "r.example/b:1"]);
    assert_eq!(path("same"), format!("{}/dist/a.mjs", mounted[0].1));
    assert_eq!(path("other"), format!("{}/dist/a.mjs", mounted[1].1));
}

#[test]
fn a_pin_takes_the_images_of_newer_plans_out_of_the_pods() {
    let planned = |reference: &str, spec: &Value| {
        let image = json!({"reference": reference, "path": "a.mjs"});
        let plugin = (Kind::Plugin, "p", json!({"source": {"image": image}}));
        let chain = (Kind::PluginChain, "checks", json!({"phase": "Request", "entries": [{"name": "p"}]}));
        planned_with(spec.clone(), &[plugin, chain])
    };
    let references = |spec: Value| {
        let (good, bad, settings) = (planned("good", &spec), planned("bad", &spec), settings());
        let input = WorkloadInput::new(&bad.owner, bad.spec.as_ref().unwrap(), &settings, [&good.plan, &bad.plan]);
        input.images.into_iter().map(|image| image.reference).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(references(json!({})), ["bad".to_owned(), "good".to_owned()].into());
    assert_eq!(references(json!({"pinnedRevision": "0123456789ab"})), ["good".to_owned()].into());
}

#[test]
fn what_the_spec_says_of_pods_is_in_the_template_and_our_labels_win() {
    let profile = |container: &str| format!("container.apparmor.security.beta.kubernetes.io/{container}");
    let kept = json!({"note": "b", profile("gateway"): "localhost/mcp", profile("b"): "runtime/default"});
    let mut annotations = kept.clone();
    annotations[profile("c")] = json!("unconfined");
    let affinity = json!({"nodeAffinity": {"fieldOfALaterVersion": [{"key": "k"}]}});
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    let template = deployment(json!({"pod": {
        "labels": {"team": "a", "hawsepipe.dev/gateway": "other", "app.kubernetes.io/managed-by": "other"},
        "annotations": annotations, "nodeSelector": {"disk": "ssd"}, "tolerations": tolerations,
        "affinity": affinity, "priorityClassName": "", "runtimeClassName": "gvisor", "topologySpreadConstraints": [],
        "terminationGracePeriodSeconds": 90, "imagePullSecrets": [{"name": "pull"}],
        "resources": {"requests": {"cpu": 2}},
    }}))["spec"]["template"]
        .clone();
    let labels = json!({"team": "a", "hawsepipe.dev/gateway": "main", "app.kubernetes.io/managed-by": "hawsepipe"});
    assert_eq!(template["metadata"], json!({"labels": labels, "annotations": kept}));
    let pod = &template["spec"];
    for (member, expected) in [
        ("nodeSelector", json!({"disk": "ssd"})),
        ("tolerations", tolerations),
        ("affinity", affinity),
        ("priorityClassName", Value::Null),
        ("runtimeClassName", json!("gvisor")),
        ("topologySpreadConstraints", Value::Null),
        ("terminationGracePeriodSeconds", json!(90)),
        ("imagePullSecrets", json!([{"name": "pull"}])),
    ] {
        assert_eq!(pod[member], expected, "{member}");
    }
    assert_eq!(pod["containers"][0]["resources"], json!({"requests": {"cpu": "2"}}));
}

#[test]
fn pods_are_restricted_spread_and_have_one_token_by_default() {
    let (pod, container) = pod(json!({}));
    let security = json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(pod["securityContext"], security);
    let (planned, mut settings) = (planned(json!({}), &[]), settings());
    settings.pods.assigned_ids = true;
    let input = WorkloadInput::new(&planned.owner, planned.spec.as_ref().unwrap(), &settings, [&planned.plan; 2]);
    let deployment = Workload::of(&input, Ok(None)).deployment.unwrap();
    let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(deployment.body()["spec"]["template"]["spec"]["securityContext"], security, "OpenShift sets the ids");
    let of_container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true});
    assert_eq!(container["securityContext"], of_container);
    assert_eq!((&pod["automountServiceAccountToken"], &pod["enableServiceLinks"]), (&json!(false), &json!(false)));
    let spread: Vec<_> = pod["topologySpreadConstraints"].as_array().unwrap().iter().collect();
    assert!(spread.iter().all(|over| over["whenUnsatisfiable"] == "ScheduleAnyway"));
    assert_eq!(
        spread.iter().map(|over| &over["topologyKey"]).collect::<Vec<_>>(),
        ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    );
    assert_eq!(pod["volumes"].to_string().matches("serviceAccountToken").count(), 1);
    let resources = json!({"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}});
    assert_eq!(container["resources"], resources);
}
