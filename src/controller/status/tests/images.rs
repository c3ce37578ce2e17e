//! Plugins from images, which only gateways of their own namespace can use.

use super::*;
use crate::controller::compiled::CompiledObjects;

/// Returns the input for the statuses of a plugin from an image in the namespace `team`, and the plugin. A gateway in
/// each of `gateways` takes a chain of the namespace `user` that names the plugin.
fn imaged(gateways: &[&str], user: &str) -> (StatusInput, LoweredObject) {
    let (none, all) = (json!({}), json!({"namespaces": {"from": "All"}}));
    let gateway = |namespace: &&str| {
        let spec = json!({"authentication": {"anonymous": {}}, "chains": all});
        read_in(namespace, Kind::MCPGateway, "main", &spec, &none)
    };
    let named: Vec<_> = gateways.iter().map(|namespace| json!({"name": "main", "namespace": namespace})).collect();
    let chain = json!({"phase": "Request", "gateways": named, "entries": [{"name": "p", "namespace": "team"}]});
    let image = json!({"source": {"image": {"reference": "r/i:1"}}, "shareWith": all});
    let plugin = read_in("team", Kind::Plugin, "p", &image, &none);
    let others = [read_in(user, Kind::PluginChain, "uses", &chain, &none), plugin.clone()];
    let mut input = StatusInput::default();
    for gateway in gateways.iter().map(gateway) {
        let objects: Vec<_> = std::iter::once(gateway).chain(others.clone()).collect();
        let one = super::input(&objects, |revision| pods(&[Some(revision)]));
        input.gateways.extend(one.gateways);
        input.pods.extend(one.pods);
    }
    let none = (Default::default(), Default::default(), Default::default());
    input.compiled = Arc::new(CompiledObjects::new(others.into(), none.0, none.1, none.2));
    (input, plugin)
}

#[test]
fn a_plugin_that_a_gateway_of_another_namespace_is_to_mount_says_that_it_cannot() {
    let (input, plugin) = imaged(&["platform"], "team");
    let (is, message) = condition(&input, &plugin, "Accepted");
    assert_eq!(is, "False InvalidConfig");
    assert!(message.starts_with("spec.source.image: gateway platform/main mounts images for"), "{message}");
    assert_eq!(condition(&input, &plugin, "Ready").0, "False InvalidConfig");
    let (_, message) = condition(&input, &plugin, "Programmed");
    assert_eq!(message, "no gateway runs it; see Accepted and ResolvedRefs");
}

#[test]
fn a_plugin_that_one_of_two_gateways_can_mount_is_ready_and_warns() {
    let (input, plugin) = imaged(&["team", "platform"], "team");
    let (is, message) = condition(&input, &plugin, "Accepted");
    assert_eq!(is, "True Accepted");
    assert!(message.contains("gateway platform/main mounts images for"), "{message}");
    assert_eq!(condition(&input, &plugin, "Ready").0, "True Ready");
    assert_eq!(super::super::warnings(&input, &plugin).len(), 1, "it is an Event too");
}

#[test]
fn a_chain_of_another_namespace_does_not_make_a_plugin_look_bad() {
    let (input, plugin) = imaged(&["platform"], "platform");
    assert_eq!(condition(&input, &plugin, "Accepted"), ("True Accepted".to_owned(), String::new()));
    assert_eq!(condition(&input, &plugin, "Ready").0, "True Ready");
}
