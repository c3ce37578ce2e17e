//! Tests that pools of workers which can never run are refused, in manifests and in files of other forms.

use super::{one, said};

/// The errors of an object with this `spec`.
fn errors(kind: &str, spec: &str) -> Vec<String> {
    said(&one(&format!("apiVersion: hawsepipe.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{{spec}}}\n")))
}

#[test]
fn pools_of_a_gateway_that_can_never_run_are_refused() {
    for (settings, field, why) in [
        ("maxConcurrentExecutions: 0", "maxConcurrentExecutions", "must be from 1 to 100; it is 0"),
        ("maxConcurrentExecutions: 101", "maxConcurrentExecutions", "must be from 1 to 100; it is 101"),
        ("poolSizePerPlugin: 21, maxConcurrentExecutions: 50", "poolSizePerPlugin", "must be from 0 to 20; it is 21"),
        ("poolSizePerPlugin: -1", "poolSizePerPlugin", "must be from 0 to 20; it is -1"),
        (
            "poolSizePerPlugin: 12",
            "",
            "poolSizePerPlugin (default 5) must be less than maxConcurrentExecutions (default 10)",
        ),
        (
            "maxConcurrentExecutions: 3",
            "",
            "poolSizePerPlugin (default 5) must be less than maxConcurrentExecutions (default 10)",
        ),
        ("defaultTimeoutMs: 0", "defaultTimeoutMs", "must be from 100 to 600000; it is 0"),
    ] {
        let found = [
            errors("MCPGateway", &format!("authentication: {{anonymous: {{}}}}, plugins: {{{settings}}}")),
            // Document 000's PluginConfiguration.
            said(&one(&format!("plugins: {{{settings}}}\n"))),
        ];
        for found in found {
            let field = format!("spec.plugins{}{field}: ", if field.is_empty() { "" } else { "." });
            let is_told = |line: &&String| line.contains(": error: ") && line.contains(&field) && line.contains(why);
            assert_eq!(found.iter().filter(is_told).count(), 1, "{settings}: {found:#?}");
        }
    }
    let smallest = "authentication: {anonymous: {}}, plugins: {maxConcurrentExecutions: 1, poolSizePerPlugin: 0}";
    assert_eq!(errors("MCPGateway", smallest), [""; 0]);
}

#[test]
fn pools_of_a_plugin_that_can_never_run_are_refused() {
    for (settings, field, why) in [
        ("protocol: Module, pool: {concurrency: 0}", "spec.pool.concurrency: ", "must be from 1 to 100; it is 0"),
        ("pool: {concurrency: 2}", "spec: ", "pool.concurrency above 1 needs protocol: Module"),
        ("pool: {size: 21}", "spec.pool.size: ", "must be from 0 to 20; it is 21"),
        ("pool: {maxExecutions: 0}", "spec.pool.maxExecutions: ", "must be from 1"),
        ("pool: {maxLifetimeSeconds: 0}", "spec.pool.maxLifetimeSeconds: ", "must be from 1"),
        ("limits: {memory: 0}", "spec.limits.memory: ", "must be"),
        ("limits: {maxInputSize: 0}", "spec.limits.maxInputSize: ", "must be"),
        ("timeoutMs: 0", "spec.timeoutMs: ", "must be from 1"),
    ] {
        let found = errors("Plugin", &format!("source: {{inline: x}}, {settings}"));
        assert!(found.len() == 1 && found[0].contains(field) && found[0].contains(why), "{settings}: {found:#?}");
    }
    assert_eq!(
        errors("Plugin", "source: {inline: x}, pool: {size: 0, concurrency: 1}, limits: {memory: 64Mi}"),
        [""; 0]
    );
}
