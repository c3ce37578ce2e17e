//! The operator's rights, one by one, and an account that has some of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Cluster, Request};
use crate::operator::harness::{ACCOUNT, Tenant, apply_roles};

/// One right.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The kind of the role that gives it: a Role gives it in the operator's own namespace alone.
    role: String,
    pub group: String,
    pub resource: String,
    /// The one object that it is on; none is all.
    name: Option<String>,
    pub verb: String,
}

impl Right {
    /// Whether nothing asks for it while the operator has its other rights: namespaces that can be listed are not read.
    pub fn is_spare(&self) -> bool {
        (self.resource.as_str(), self.verb.as_str()) == ("namespaces", "get")
    }

    /// Whether a request needs it. A server-side apply that creates an object needs the right to create it, too.
    pub fn is_needed_by(&self, request: &Request) -> bool {
        let (plural, part) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let mut resource = plural.to_owned();
        for (before, part) in [('.', self.group.as_str()), ('/', part)] {
            if !part.is_empty() {
                resource.push(before);
                resource.push_str(part);
            }
        }
        let is_verb = request.verb == self.verb || self.verb == "create" && request.verb == "patch";
        is_verb && request.resource == resource
    }
}

/// Every right that the operator's roles give, but that on tokens, which nothing asks for where no pod runs, and those on
/// routes, whose kind is not installed.
pub async fn rights(cluster: &Cluster) -> Vec<Right> {
    apply_roles(cluster).await;
    let get = ["get", "clusterrole,role", "hawsepipe-operator", "-n", "hawsepipe-system", "-o", "json"];
    let roles: Value = serde_json::from_str(&cluster.kubectl(&get, "").await.unwrap()).unwrap();
    let words = |rule: &Value, member: &str| -> Vec<String> {
        rule[member].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for role in roles["items"].as_array().unwrap() {
        for rule in role["rules"].as_array().unwrap() {
            let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|member| words(rule, member));
            for (group, resource) in groups.iter().flat_map(|group| resources.iter().map(move |r| (group, r))) {
                rights.extend(verbs.iter().map(|verb| Right {
                    role: role["kind"].as_str().unwrap().to_owned(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: words(rule, "resourceNames").pop(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    let is_used = |right: &Right| !["serviceaccounts/token", "httproutes"].contains(&right.resource.as_str());
    rights.into_iter().filter(is_used).collect()
}

/// Gives the operator of a namespace these rights and no others.
pub async fn give(home: &Tenant<'_>, rights: impl Iterator<Item = &Right>) {
    let rights: Vec<_> = rights.collect();
    let group = "rbac.authorization.k8s.io";
    let name = format!("denied-{}", home.namespace);
    let mut objects = Vec::new();
    for kind in ["ClusterRole", "Role"] {
        let given = rights.iter().filter(|right| right.role == kind);
        let rules: Vec<_> = given
            .map(|Right { group, resource, name, verb, .. }| {
                let names = name.iter().collect::<Vec<_>>();
                json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": [verb]})
            })
            .collect();
        let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": home.namespace}]);
        let role =
            json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": kind, "name": name}, "subjects": subjects,
        });
        objects.extend([role, binding]);
    }
    home.apply(&objects).await;
}
