//! The operator's RBAC rules as text: as roles in files, and as rows of the page that explains each right.

use std::fmt::Write;

use super::kinds::{RightScope, Row, TABLE, Use};

/// The `resourceNames` of the rules in the operator's own namespace.
struct Names<'a> {
    account: &'a str,
    lease: &'a str,
}

/// The names in the plain manifests.
const PLAIN: Names<'_> = Names { account: "hawsepipe-operator", lease: "hawsepipe-operator" };
/// The names in the chart. They are templates, because the chart passes the files through `tpl`.
const CHART: Names<'_> = Names {
    account: r#"'{{ include "hawsepipe.serviceAccount" . }}'"#,
    lease: r#"'{{ include "hawsepipe.operator" . }}'"#,
};

/// Returns the files that contain the operator's rules, each with its path in the repository and its text.
pub fn role_files() -> [(&'static str, String); 3] {
    let is_watched = |row: &Row| row.place == RightScope::Watched;
    let is_own = |row: &Row| row.place != RightScope::Watched;
    let of_chart = |rules: String| format!("# Written by `make docs`; edits here are lost.\nrules:\n{rules}");
    [
        ("manifests/operator/rbac.yaml", manifest(&rules(is_watched, &PLAIN), &rules(is_own, &PLAIN))),
        ("charts/hawsepipe/files/cluster-rules.yaml", of_chart(rules(is_watched, &CHART))),
        ("charts/hawsepipe/files/own-namespace-rules.yaml", of_chart(rules(is_own, &CHART))),
    ]
}

fn manifest(watched: &str, own: &str) -> String {
    format!(
        "\
# The operator's rights. It may create Secrets, but read none. Written by `make docs`; edits here are lost.
# The ServiceAccount must exist in the namespace that the operator runs in. If that is not hawsepipe-system, replace it in
# the bindings' subjects and in the metadata of Role and RoleBinding.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: hawsepipe-operator}}
rules:
{watched}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: hawsepipe-operator}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hawsepipe-operator}}
subjects:
- {{kind: ServiceAccount, name: hawsepipe-operator, namespace: hawsepipe-system}}
---
# Its rights in its own namespace only.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: hawsepipe-operator, namespace: hawsepipe-system}}
rules:
{own}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: hawsepipe-operator, namespace: hawsepipe-system}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: hawsepipe-operator}}
subjects:
- {{kind: ServiceAccount, name: hawsepipe-operator, namespace: hawsepipe-system}}
"
    )
}

/// Returns the rules of a role. Successive resources of one group with the same verbs and purpose share a rule.
fn rules(of_role: impl Fn(&Row) -> bool, names: &Names<'_>) -> String {
    let rows: Vec<_> = TABLE.iter().filter(|row| of_role(row)).collect();
    let is_one_rule = |a: &&Row, b: &&Row| {
        let parts = |row: &Row| (row.group, row.verbs, purpose(row.what_for), row.place);
        parts(a) == parts(b)
    };
    rows.chunk_by(is_one_rule).map(|rows| rule(rows, names)).collect()
}

fn rule(rows: &[&Row], names: &Names<'_>) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let group = if first.group.is_empty() { r#""""# } else { first.group };
    let mut text = format!("# {}\n- apiGroups: [{group}]\n", purpose(first.what_for));
    let resources: Vec<_> = rows.iter().map(|row| row.resource).collect();
    let _ = writeln!(text, "  resources: [{}]", resources.join(", "));
    let name = match first.place {
        RightScope::Watched | RightScope::Own => None,
        RightScope::OwnAccount => Some(names.account),
        RightScope::OwnLease => Some(names.lease),
    };
    if let Some(name) = name {
        let _ = writeln!(text, "  resourceNames: [{name}]");
    }
    let _ = writeln!(text, "  verbs: [{}]", first.verbs.join(", "));
    text
}

fn purpose(what_for: Use) -> &'static str {
    match what_for {
        Use::Written(_) => "What users write",
        Use::Status => "The status of what users write",
        Use::Snapshot => "What gateways run. Their pods' right to read it is granted from this one",
        Use::Referred => "What objects refer to",
        Use::Reporting => "Gateways' pods, which report what they run",
        Use::Account => {
            "Created for each gateway and each managed upstream: the service account of its pods. A gateway's has rights"
        }
        Use::Workload => {
            "Created for each gateway and each managed upstream if --gateway-image is set: its pods and what belongs to them"
        }
        Use::Route => {
            "Created for each gateway with spec.route if --gateway-image is set and the cluster has Gateway API"
        }
        Use::Seal => {
            "Created for each gateway if --gateway-image is set: the key that its pods seal session ids with. It is not read"
        }
        Use::Events => "Events",
        Use::Token => {
            "Tokens of its own service account, each for one gateway: they prove to that gateway's pods who asks"
        }
        Use::Lease => "Leader election",
    }
}

/// Returns the rows of the reference page. Each consists of the resource, the verbs, the place and the purpose.
pub fn rights_table() -> Vec<[String; 4]> {
    let row = |row: &Row| {
        let group = if row.group.is_empty() { String::new() } else { format!(".{}", row.group) };
        let (plural, subresource) = row.resource.split_once('/').unwrap_or((row.resource, ""));
        let slash = if subresource.is_empty() { "" } else { "/" };
        let place = match row.place {
            RightScope::Watched => "every namespace that it watches",
            RightScope::Own => "its own namespace",
            RightScope::OwnAccount => "its own account",
            RightScope::OwnLease => "its own Lease",
        };
        let resource = format!("`{plural}{group}{slash}{subresource}`");
        [resource, row.verbs.join(", "), place.to_owned(), purpose(row.what_for).to_owned()]
    };
    TABLE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_files_are_what_the_table_says() {
        for (name, text) in super::role_files() {
            let kept = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap_or_default();
            assert!(kept == text, "{name} is stale: run `make docs`");
        }
    }

    #[test]
    fn secrets_are_only_created_and_no_rule_is_of_everything() {
        for (name, text) in super::role_files() {
            let given: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(!given.iter().any(|line| line.contains('*')), "{name}");
            let rules = given.windows(2).filter(|lines| lines[0].contains("secrets"));
            assert!(rules.clone().all(|lines| lines == ["  resources: [secrets]", "  verbs: [create]"]), "{name}");
            assert_eq!(rules.count(), usize::from(!name.contains("own-namespace")), "{name}");
        }
    }
}
