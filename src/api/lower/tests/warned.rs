//! Tests of which settings are warned of because they have no effect as they are written, and which are not.

use serde_json::json;

use super::{lower_gateway, lower_plugin, lower_upstream};

#[test]
fn what_has_no_effect_as_it_is_written_is_warned_of() {
    let approved = json!([{"name": "a", "sha256": "0"}]);
    let pinned = |pinning| lower_upstream(json!({"external": {"url": "http://h"}, "pinning": pinning})).1;
    assert_eq!(pinned(json!({"approved": approved})), ["InvalidConfig spec.pinning.mode"]);
    for mode in ["Off", "Alert", "Enforce"] {
        assert!(pinned(json!({"approved": approved, "mode": mode})).is_empty(), "{mode}");
    }
    let old = json!([{"name": "a", "port": 1}, {"name": "b", "port": 2, "legacySSE": true}]);
    let (_, problems) = lower_gateway(json!({"listeners": old}));
    assert_eq!(problems, ["InvalidConfig spec.listeners[1].legacySSE"]);
}

#[test]
fn streams_have_by_default_at_most_half_of_the_connections() {
    let limits = |limits| {
        let (input, problems) = lower_gateway(json!({"limits": limits}));
        assert!(problems.is_empty(), "{problems:?}");
        (input.plan.limits.max_connections, input.plan.limits.max_streams)
    };
    assert_eq!(limits(json!({})), (8192, 1000));
    assert_eq!(limits(json!({"maxConnections": 500})), (500, 250));
    assert_eq!(limits(json!({"maxConnections": 500, "maxStreams": 500})), (500, 500));
    assert_eq!(limits(json!({"maxStreams": 3000})), (8192, 3000));
}

#[test]
fn what_is_done_anyway_is_not_warned_of() {
    let (_, problems) = lower_gateway(json!({
        "audit": {"mode": "Off"}, "history": {"payloads": "None"}, "plugins": {"discovery": "Declared"},
        "listeners": [{"name": "a", "port": 1, "legacySSE": false}],
    }));
    assert!(problems.is_empty(), "{problems:?}");
    let (_, problems) = lower_upstream(json!({
        "process": {"command": "x", "session": "Shared"}, "retry": {"when": "Never"}, "pinning": {"mode": "Off"},
    }));
    assert!(problems.is_empty(), "{problems:?}");
    let (_, problems) = lower_plugin(json!({
        "type": "middleware", "reuse": false, "encoding": "JSON", "egress": [], "pool": {"concurrency": 1},
    }));
    assert!(problems.is_empty(), "{problems:?}");
}
