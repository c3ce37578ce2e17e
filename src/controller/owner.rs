//! The owner of the objects that the operator creates. Kubernetes deletes these objects together with their owner.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
pub(super) use crate::api::gateway::pods::workload;
use crate::api::upstream::managed::{self, UPSTREAM_LABEL};
use crate::domain::ids::{Kind, ObjectKey};

/// The custom resource that owns what the operator creates for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    pub(super) key: ObjectKey,
    pub(super) uid: String,
}

impl Owner {
    pub(super) fn gateway(key: ObjectKey, uid: impl Into<String>) -> Self {
        Self { kind: Kind::MCPGateway, key, uid: uid.into() }
    }

    pub(super) fn upstream(key: ObjectKey, uid: impl Into<String>) -> Self {
        Self { kind: Kind::MCPUpstream, key, uid: uid.into() }
    }

    /// Returns the name of the objects that exist for the owner's pods.
    pub(super) fn workload(&self) -> String {
        match self.kind {
            Kind::MCPUpstream => managed::workload(&self.key.name),
            _ => workload(&self.key.name),
        }
    }

    /// Returns the label by which the owner's objects and pods are found. Its value is the owner's name.
    pub(super) fn label(&self) -> &'static str {
        match self.kind {
            Kind::MCPUpstream => UPSTREAM_LABEL,
            _ => GATEWAY_LABEL,
        }
    }

    /// Whether this owner owns the object with this metadata.
    pub(super) fn owns(&self, metadata: &ObjectMeta) -> bool {
        metadata.owner_references.iter().flatten().any(|owner| owner.uid == self.uid)
    }

    /// Whether the object belongs to another owner of this kind, for example to an earlier one of the same name.
    pub(super) fn is_anothers(&self, metadata: &ObjectMeta) -> bool {
        let mut owners = metadata.owner_references.iter().flatten();
        !self.owns(metadata) && owners.any(|owner| owner.kind == self.kind.as_str())
    }

    /// Returns the metadata of an object that is created for this owner. `part` is the part of a snapshot that the
    /// object holds, if any.
    pub(super) fn metadata(&self, name: &str, part: Option<&str>) -> ObjectMeta {
        let part = part.map(|part| (PART_LABEL.to_owned(), part.to_owned()));
        let labels = [(self.label(), self.key.name.as_str()), MANAGED_BY].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let owner = OwnerReference {
            api_version: "hawsepipe.dev/v1alpha1".into(),
            kind: self.kind.as_str().into(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.key.namespace.clone()),
            labels: Some(labels.into_iter().chain(part).collect()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }
}
