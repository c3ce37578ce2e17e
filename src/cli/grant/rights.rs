//! The Role and the RoleBinding of a grant, as YAML.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::domain::ids::ObjectKey;

/// Names of Secrets by namespace.
pub type SecretNames = BTreeMap<String, BTreeSet<String>>;

/// Returns a Role and a RoleBinding for each namespace, as YAML documents. They let the pods of `gateway` read exactly
/// these Secrets.
///
/// # Errors
/// If an object cannot be written as YAML, which does not happen in practice.
pub fn manifests(secrets: &SecretNames, gateway: &ObjectKey) -> anyhow::Result<String> {
    let mut documents = Vec::with_capacity(2 * secrets.len());
    for (namespace, names) in secrets {
        documents.push(serde_saphyr::to_string(&role(namespace, names, gateway))?);
        documents.push(serde_saphyr::to_string(&binding(namespace, gateway))?);
    }
    Ok(documents.join("---\n"))
}

fn metadata(namespace: &str, gateway: &ObjectKey) -> ObjectMeta {
    ObjectMeta { name: Some(name(gateway)), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

/// Returns the name of the Role and of the RoleBinding for a gateway. The dot keeps `a-b/c` and `a/b-c` apart: names of
/// namespaces have none.
fn name(gateway: &ObjectKey) -> String {
    format!("hawsepipe-{}.{}", gateway.namespace, gateway.name)
}

fn role(namespace: &str, names: &BTreeSet<String>, gateway: &ObjectKey) -> Role {
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["secrets".to_owned()]),
        resource_names: Some(names.iter().cloned().collect()),
        verbs: vec!["get".to_owned(), "watch".to_owned()],
        ..PolicyRule::default()
    };
    Role { metadata: metadata(namespace, gateway), rules: Some(vec![rule]) }
}

fn binding(namespace: &str, gateway: &ObjectKey) -> RoleBinding {
    let account = Subject {
        kind: "ServiceAccount".to_owned(),
        name: format!("{}-gateway", gateway.name),
        namespace: Some(gateway.namespace.clone()),
        ..Subject::default()
    };
    RoleBinding {
        metadata: metadata(namespace, gateway),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: name(gateway),
        },
        subjects: Some(vec![account]),
    }
}
