//! What lets a gateway's pods read its snapshots, brought to what it is to be.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::apply::ApplyError;
use super::build::{self, Owner};
use super::watches::Watches;
use super::writer::Writer;

/// Makes the gateway's ServiceAccount, Role and RoleBinding, where they are not as they are to be.
///
/// # Errors
/// The first thing that stopped one of them. It does not stop the others.
pub(super) async fn apply(writer: &Writer, watches: &Watches, owner: &Owner) -> Result<(), ApplyError> {
    let (account, role, binding) = build::access(owner);
    let same = |_: &ServiceAccount, _: &ServiceAccount| true;
    let account = ensure(writer, watches, &watches.accounts, owner, account, same).await;
    let same = |seen: &Role, wanted: &Role| seen.rules == wanted.rules;
    let role = ensure(writer, watches, &watches.roles, owner, role, same).await;
    let same =
        |seen: &RoleBinding, wanted: &RoleBinding| seen.role_ref == wanted.role_ref && seen.subjects == wanted.subjects;
    account.and(role).and(ensure(writer, watches, &watches.bindings, owner, binding, same).await)
}

async fn ensure<K>(
    writer: &Writer,
    watches: &Watches,
    stores: &[Store<K>],
    owner: &Owner,
    wanted: K,
    same: impl Fn(&K, &K) -> bool,
) -> Result<(), ApplyError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Serialize + DeserializeOwned,
    K: std::fmt::Debug + 'static,
{
    if let Some(why) = watches.cache_sync.unseen(&[&K::plural(&())]) {
        return Err(ApplyError::Unseen(why));
    }
    let seen = ObjectRef::new(&wanted.name_any()).within(&owner.key.namespace);
    let seen = stores.iter().find_map(|store| store.get(&seen));
    let seen = seen.as_deref();
    if seen.is_some_and(|seen| labelled(seen.meta(), wanted.meta()) && owner.owns(seen.meta()) && same(seen, &wanted)) {
        return Ok(());
    }
    let name = wanted.name_any();
    let what = format!("{} in {}", K::plural(&()), owner.key.namespace);
    let failed = |error| ApplyError::Request { what: what.clone(), error };
    let api: Api<K> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
    if !seen.is_some_and(|seen| owner.owns(seen.meta())) && writer.leads() {
        // It may be there without our label.
        let there = writer.read(&format!("get {what}"), api.get_metadata_opt(&name)).await.map_err(failed)?;
        if there.is_some_and(|there| !owner.owns(&there.metadata)) {
            return Err(ApplyError::Taken(format!("{} {}/{name}", K::kind(&()), owner.key.namespace)));
        }
    }
    writer.apply(&api, &what, &name, &wanted).await.map(drop).map_err(failed)
}

/// Whether it has the labels that it is to have.
fn labelled(seen: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let has = |(key, value): (&String, &String)| seen.labels.as_ref().and_then(|l| l.get(key)) == Some(value);
    wanted.labels.iter().flatten().all(has)
}
