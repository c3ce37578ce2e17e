//! The command that grants a gateway the right to read Secrets of another namespace.

use crate::domain::ids::ObjectKey;
use crate::domain::plan::{NamedValue, Plan, TransportPlan, UpstreamPlan, ValueSource};

/// Maximum number of objects that a command names. A message has a limited length, and an incomplete command would be
/// wrong.
const MAX_OBJECTS: usize = 24;

/// Returns the command for all objects of `namespace` that are in the plan of `gateway` and name a Secret of that
/// namespace. The command must name all of them, because it replaces what was granted before. If there are more than
/// [`MAX_OBJECTS`], the command is only described.
pub(super) fn grant_command(namespace: &str, gateway: &ObjectKey, plan: &Plan) -> String {
    let named = |key: &ObjectKey, secrets: Vec<(ObjectKey, String)>| {
        key.namespace == namespace && secrets.iter().any(|(secret, _)| secret.namespace == namespace)
    };
    let upstreams = plan.upstreams.iter().filter(|upstream| named(&upstream.key, secret_keys(values_of(upstream))));
    let plugins = plan.plugins.iter().filter(|plugin| named(&plugin.key, secret_keys(&plugin.env)));
    let mut objects: Vec<_> = upstreams.map(|upstream| upstream.key.to_string()).collect();
    objects.extend(plugins.map(|plugin| format!("plugin/{}", plugin.key)));
    objects.sort();
    if objects.len() > MAX_OBJECTS {
        let first = &objects[0];
        return format!(
            "`hawsepipe grant OBJECT... --to {gateway}` with all {} upstreams and plugins of {namespace} that it takes \
             and that name a Secret, {first} the first of them",
            objects.len()
        );
    }
    format!("hawsepipe grant {} --to {gateway}", objects.join(" "))
}

/// Returns the Secrets and keys that `values` refer to, except for optional values.
pub(super) fn secret_keys<'a>(values: impl IntoIterator<Item = &'a NamedValue>) -> Vec<(ObjectKey, String)> {
    let keys = values.into_iter().filter_map(|named| match &named.value {
        ValueSource::Secret { secret, key, optional: false } => Some((secret.clone(), key.clone())),
        _ => None,
    });
    keys.collect()
}

/// Returns the headers that are sent to an upstream and the certificates for its connection, or the keys of a pipeline's models.
pub(super) fn values_of(plan: &UpstreamPlan) -> impl Iterator<Item = &NamedValue> {
    let is_of_pods = matches!(plan.transport, TransportPlan::External { .. } | TransportPlan::Pipeline(_));
    plan.transport.values().filter(move |_| is_of_pods)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{folder, upstream};
    use crate::config::input::{InputValue, NamedInput};

    /// Returns a plan with these upstreams in the namespace `default`. An upstream refers to a Secret unless its name
    /// begins with `open`.
    fn plan(upstreams: impl IntoIterator<Item = String>) -> Plan {
        let mut inputs = folder();
        inputs.upstreams = upstreams.into_iter().map(|name| upstream(&name)).collect();
        for input in &mut inputs.upstreams {
            if !input.plan.key.name.starts_with("open") {
                let value = InputValue::Secret { name: "key".into(), key: "header".into(), optional: false };
                input.values.push(NamedInput { name: "X-Key".into(), value, field: "spec.external.headers[0]".into() });
            }
        }
        compile(&inputs, None).0
    }

    #[test]
    fn all_objects_that_name_a_secret_are_in_the_command() {
        let gateway = ObjectKey::new("mcp", "shared");
        let plan = plan(["b", "open", "a"].map(Into::into));
        let command = grant_command("default", &gateway, &plan);
        assert_eq!(command, "hawsepipe grant default/a default/b --to mcp/shared");
    }

    #[test]
    fn no_part_of_a_command_is_given() {
        let gateway = ObjectKey::new("mcp", "shared");
        let plan = plan((0..1000).map(|n| format!("a{n}")));
        let command = grant_command("default", &gateway, &plan);
        assert!(command.len() < 400 && command.contains("all 1000 upstreams"), "{command}");
    }
}
