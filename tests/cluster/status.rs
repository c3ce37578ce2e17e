//! What a real API server does with a status for an object that is gone, which the operator's unit tests count on.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::harness::Cluster;
use crate::operator::harness::{api, object};

#[tokio::test]
async fn a_status_for_an_object_that_was_deleted_is_refused_and_for_a_replaced_one_goes_to_its_successor() {
    let cluster = Cluster::shared().await;
    let (namespace, client) = (cluster.namespace().await, cluster.admin().await);
    let plugins = api(&client, &namespace, "plugins");
    let create = async || {
        let plugin = object("Plugin", "p", &json!({"source": {"inline": "export default () => ({});"}}));
        let plugin: DynamicObject = serde_json::from_value(plugin).unwrap();
        plugins.create(&Default::default(), &plugin).await.unwrap().metadata.uid.unwrap()
    };
    let write = async |uid: &str| {
        let patch = json!({
            "apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "p", "namespace": namespace, "uid": uid},
            "status": {"sizeBytes": 7},
        });
        plugins.patch_status("p", &PatchParams::apply("hawsepipe").force(), &Patch::Apply(&patch)).await
    };
    let first = create().await;
    assert_eq!(write(&first).await.unwrap().metadata.uid.as_ref(), Some(&first));
    plugins.delete("p", &DeleteParams::default()).await.unwrap();
    match write(&first).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, &*status.message), (404, "plugins.hawsepipe.dev \"p\" not found"));
        }
        other => panic!("not refused: {other:?}"),
    }

    let second = create().await;
    // The uid in the request is not compared, but the answer names the object that was written to.
    assert_eq!(write(&first).await.unwrap().metadata.uid.as_ref(), Some(&second));
}
