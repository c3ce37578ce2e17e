//! Values for the chart of the operator, between them every switch of it.

use serde_json::{Value, json};

use crate::harness::{checkout, documents};

/// What each is about, and values for a release in `own`; `other` is another namespace.
pub fn cases(own: &str, other: &str) -> Vec<(&'static str, Value)> {
    let open = json!({"authentication": {"anonymous": {}}});
    vec![
        ("defaults", json!({})),
        ("demo", json!({"demo": {"enabled": true}})),
        ("a gateway in another namespace", json!({"gateway": {"enabled": true, "namespace": other, "spec": open}})),
        (
            "named namespaces",
            json!({
                "watchNamespaces": [own, other],
                "demo": {"enabled": true},
                "gateway": {"enabled": true, "spec": open},
                "metrics": {"podMonitor": {"enabled": true}},
                "rbac": {"extraRules": [servers()]},
            }),
        ),
        ("OpenShift", json!({"openshift": {"enabled": true}, "demo": {"enabled": true}})),
        ("everything", everything(other)),
        ("nothing but the operator", nothing()),
        (
            "an image by digest, from the registry of a parent chart",
            json!({
                "global": {"imageRegistry": "registry.example.com", "imagePullSecrets": [{"name": "of-all"}]},
                "enabled": true,
                "image": {"digest": format!("sha256:{}", "0".repeat(64))},
                "gatewayImage": {"reference": "registry.example.com/mcp/gateway:1", "pullPolicy": "Always"},
                "fullnameOverride": "mcp",
            }),
        ),
        (
            "what is written in another way",
            json!({
                "image": {"registry": "localhost:5000/mcp", "repository": "team/hawse_pipe", "tag": "v1.2-rc.1"},
                "gatewayImage": {"reference": "localhost:5000/mcp/gateway:1"},
                "logLevel": "WARN,hawsepipe::controller=debug",
                "podDisruptionBudget": {"maxUnavailable": 0},
                "commonLabels": {"app.kubernetes.io/part-of": "mcp"},
                "serviceAccount": {"create": false},
            }),
        ),
    ]
}

/// Values in which one is null, as if it came from a chart that does not have it yet (`--reuse-values`): each of
/// `values.yaml`, and each member of two of them. Each comes with the name of that one.
pub fn one_missing() -> Vec<(String, Value)> {
    let chart = documents(&checkout().join("charts").join("hawsepipe").join("values.yaml")).remove(0);
    let mut everything = everything("other");
    // The dashboards take long to render, and the demo's gateway would be tested instead of the other one.
    everything["dashboards"]["enabled"] = json!(false);
    everything["demo"]["enabled"] = json!(false);
    let without = |names: &[&str]| {
        let mut values = everything.clone();
        *names.iter().fold(&mut values, |value, name| &mut value[*name]) = Value::Null;
        (names[names.len() - 1].to_owned(), values)
    };
    let parts = ["gateway", "rbac"].into_iter().flat_map(|name| {
        let parts = chart[name].as_object().unwrap().keys();
        parts.map(move |part| [name, part.as_str()])
    });
    let parts: Vec<_> = parts.collect();
    let names = chart.as_object().unwrap().keys().map(String::as_str);
    names.map(|name| without(&[name])).chain(parts.iter().map(|names| without(names))).collect()
}

fn servers() -> Value {
    json!({"apiGroups": ["example.com"], "resources": ["mcpservers"], "verbs": ["list", "watch"]})
}

fn everything(other: &str) -> Value {
    let monitor = json!({"enabled": true, "labels": {"release": "prometheus"}, "interval": "30s"});
    json!({
        "nameOverride": "pipe",
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"example.com/contact": "platform"},
        "image": {"registry": "registry.example.com", "repository": "mcp/hawsepipe", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicaCount": 3,
        "logLevel": "Debug",
        "extraArgs": ["--listen=:9090"],
        "extraEnv": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector.observability:4318"}],
        "serviceAccount": {"annotations": {"example.com/role": "operator"}},
        "rbac": {"extraRules": [servers()]},
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}},
        "podLabels": {"example.com/tier": "control"},
        "podAnnotations": {"example.com/scrape": "yes"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["control"]}]},
        }]}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 60,
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "networkPolicy": {"apiServerPorts": [6443], "extraEgress": [{"ports": [{"port": 4318}]}]},
        "metrics": {"serviceMonitor": monitor, "podMonitor": monitor},
        "alerts": {"enabled": true, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": true, "annotations": {"grafana_folder": "MCP"}},
        "gateway": {"enabled": true, "name": "edge", "spec": {
            "authentication": {"anonymous": {}},
            "listeners": [{"name": "http", "port": 8081, "path": "/tools"}],
        }},
        "grants": grants(other), "tokenReview": {"gateways": [format!("{other}/main"), "mcp/edge"]},
        "demo": {"enabled": true},
        "test": {"timeoutSeconds": 60, "tool": "files__list_directory", "arguments": {"path": "."}},
    })
}

fn grants(other: &str) -> Value {
    let to = |gateway: String| json!({"gateway": gateway, "namespace": other, "secrets": ["ledger", "mail"]});
    // The names of the last two are the same once their parts are joined.
    json!([to(format!("{other}/main")), to(format!("{other}/a-b")), to(format!("{other}-a/b"))])
}

fn nothing() -> Value {
    json!({
        "replicaCount": 1,
        "serviceAccount": {"create": false, "name": "made-elsewhere"},
        "rbac": {"create": false, "aggregate": false},
        "networkPolicy": {"enabled": false},
        "podDisruptionBudget": {"enabled": false},
    })
}

/// Values that are refused, and a word that says which.
pub fn refused() -> Vec<(Value, &'static str)> {
    let gateway = |gateway: Value| json!({"gateway": gateway});
    vec![
        (json!({"replicas": 2}), "replicas"),
        (json!({"image": {"tags": "1"}}), "tags"),
        (json!({"image": {"digest": "sha256:1"}}), "digest"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "pullPolicy"),
        (json!({"replicaCount": "2"}), "replicaCount"),
        (json!({"watchNamespaces": "mcp"}), "watchNamespaces"),
        (json!({"watchNamespaces": ["MCP"]}), "watchNamespaces"),
        (json!({"networkPolicy": {"apiServerPorts": []}}), "apiServerPorts"),
        (json!({"metrics": {"serviceMonitor": {"interval": "soon"}}}), "interval"),
        (json!({"grants": [{"gateway": "main", "namespace": "a", "secrets": ["b"]}]}), "gateway"),
        (json!({"tokenReview": {"gateways": ["main"]}}), "gateways"),
        (gateway(json!({"enabled": true})), "gateway.spec.authentication is required"),
        (json!({"watchNamespaces": ["elsewhere"], "demo": {"enabled": true}}), "not among watchNamespaces"),
        (json!({"serviceAccount": {"name": "default"}}), "the account of every pod"),
    ]
}

/// More of them: each is refused by the schema, with the name of the value.
pub fn refused_together() -> Vec<(Value, &'static [&'static str])> {
    let image = |registry: &str, repository: &str| json!({"registry": registry, "repository": repository});
    vec![
        (
            json!({
                "global": {"imageRegistry": "https://x.y", "imagePullSecrets": ["a"]},
                "logLevel": "loud",
                "extraArgs": ["--lease=a/b"],
                "extraEnv": [{"name": "HAWSEPIPE_LOG", "value": "debug"}],
                "image": image("https://x.y/", "bad repo"),
                "gatewayImage": {"reference": "bad image"},
                "commonLabels": {"app.kubernetes.io/name": "mine"},
                "podLabels": {"app.kubernetes.io/component": "mine"},
                "podDisruptionBudget": {"maxUnavailable": -1},
            }),
            &[
                "imageRegistry",
                "imagePullSecrets",
                "logLevel",
                "extraArgs",
                "extraEnv",
                "registry",
                "repository",
                "reference",
                "commonLabels",
                "podLabels",
                "maxUnavailable",
            ],
        ),
        (
            json!({
                "image": {"registry": "registry.example.com/", "repository": "hawsepipe:1"},
                "extraArgs": ["--gateway-image", "x"],
                "logLevel": "info,kube",
                "podDisruptionBudget": {"maxUnavailable": "150%"},
            }),
            &["registry", "repository", "extraArgs", "logLevel", "maxUnavailable"],
        ),
        (json!({"rbac": {"extraRules": null}}), &["extraRules"]),
    ]
}
