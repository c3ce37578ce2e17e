//! Values that plugins and upstreams are given: those of Secrets and of the gateway's environment are put in, and the state of
//! each key of a Secret is told.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::api_keys::written;
use crate::domain::environment_text::EnvironmentText;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{NamedValue, OAuthPlan, Plan, Refusal, TransportPlan, ValueSource};
use crate::domain::ports::Secrets;
use crate::domain::report::{SecretReport, SecretState};
use crate::domain::secret::{NoSecret, SecretText, header_value, secret_uses};

/// Says whether a value can be used where it is named; returns it then.
pub(super) type Fit = fn(SecretText) -> Result<SecretText, NoSecret>;

/// Resolves values. Returns those that were found, by name, and why the first missing value could not be resolved.
/// Optional values that do not exist are left out; those that exist and cannot be used are not. Values that stand in a
/// manifest fit, because it was checked.
pub(super) fn put_in(
    values: &[NamedValue],
    secrets: &impl Secrets,
    fit: Fit,
) -> (Vec<(String, SecretText)>, Option<Refusal>) {
    let mut known = Vec::with_capacity(values.len());
    let mut missing = None;
    for NamedValue { name, value } in values {
        let (found, optional) = match value {
            ValueSource::Literal(text) => (Ok(SecretText::new(text)), false),
            ValueSource::Secret { secret, key, optional } => (secrets.secret(secret, key).and_then(fit), *optional),
            ValueSource::Environment(variable) => {
                (from_environment(variable, secrets).ok_or(NoSecret::NotFound).and_then(fit), false)
            }
        };
        match found {
            Ok(value) => known.push((name.clone(), value)),
            Err(NoSecret::NotFound) if optional => {}
            Err(why) => {
                let message = format!("{name}: {}", why.message(&place(value)));
                missing.get_or_insert(Refusal { reason: why.reason(), message });
            }
        }
    }
    (known, missing)
}

/// The values that a transport names.
pub(super) struct NamedValues<'t> {
    pub(super) values: Cow<'t, [NamedValue]>,
    /// Certificates, and the secret of a client of OAuth.
    pub(super) proofs: Cow<'t, [NamedValue]>,
    /// The field of `values`.
    pub(super) field: &'static str,
    pub(super) are_headers: bool,
}

impl<'t> NamedValues<'t> {
    pub(super) fn of(transport: &'t TransportPlan) -> Self {
        let none: &[NamedValue] = &[];
        let (values, proofs, field) = match transport {
            TransportPlan::External { headers, tls, .. } => {
                (headers.into(), tls.values.as_slice().into(), "spec.external.headers")
            }
            TransportPlan::Process { env, .. } => (env.into(), none.into(), "spec.process.env"),
            TransportPlan::Pipeline(_) => {
                (transport.values().cloned().collect::<Vec<_>>().into(), none.into(), "spec.models")
            }
            TransportPlan::Plugin(_) | TransportPlan::None => (none.into(), none.into(), ""),
        };
        let are_headers = matches!(transport, TransportPlan::External { .. } | TransportPlan::Pipeline(_));
        Self { values, proofs, field, are_headers }
    }
}

/// Returns how values fit: those of headers have no control characters.
pub(super) fn fit(are_headers: bool) -> Fit {
    if are_headers { header_value } else { Ok }
}

/// Returns why the first value that a transport needs is not there, and its field.
pub(super) fn missing_value(transport: &TransportPlan, secrets: &impl Secrets) -> Option<(Refusal, &'static str)> {
    let NamedValues { values, proofs, field, are_headers } = NamedValues::of(transport);
    let missing = put_in(&values, secrets, fit(are_headers)).1.map(|missing| (missing, field));
    missing.or_else(|| {
        let missing = put_in(&proofs, secrets, Ok).1?;
        let field = field_of(Some(&missing));
        Some((missing, field))
    })
}

/// Returns the field of what lacks of the certificates and the client secret of an upstream.
pub(super) fn field_of(missing: Option<&Refusal>) -> &'static str {
    let is_secret = missing.is_some_and(|it| it.message.starts_with(OAuthPlan::SECRET));
    if is_secret { "spec.external.oauth" } else { "spec.external.tls" }
}

/// Says where a value is.
fn place(value: &ValueSource) -> String {
    match value {
        ValueSource::Literal(_) => "its value".to_owned(),
        ValueSource::Secret { secret, key, .. } => format!("key {key:?} of Secret {secret}"),
        ValueSource::Environment(variable) => format!("the gateway's environment variable {}", needed(variable)),
    }
}

/// Returns the value of a variable, or a text with the values of those that it refers to.
fn from_environment(text: &str, secrets: &impl Secrets) -> Option<SecretText> {
    if !EnvironmentText::is_needed(text) {
        return secrets.environment(text);
    }
    let value = |name: &str| secrets.environment(name).map(|value| value.expose().to_owned());
    EnvironmentText::parse(text).ok()?.resolve(value).ok().map(SecretText::new)
}

/// Names the variables that must be set. The rest of the text can be a part of a secret.
fn needed(text: &str) -> String {
    let Ok(parts) = EnvironmentText::parse(text) else { return "of a text with an invalid reference".to_owned() };
    let names: Vec<_> = parts.variables().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name).collect();
    if EnvironmentText::is_needed(text) { names.join(" or ") } else { text.to_owned() }
}

/// Returns messages about headers whose value is empty in its Secret or variable. `known` are the values by name.
pub(super) fn empty_values(headers: &[NamedValue], known: &[(String, SecretText)]) -> impl Iterator<Item = String> {
    let is_empty = |header: &&NamedValue| {
        let is_written = matches!(header.value, ValueSource::Literal(_));
        !is_written && known.iter().any(|(name, value)| *name == header.name && value.expose().trim().is_empty())
    };
    let message = |NamedValue { name, value }: &NamedValue| {
        format!("{name}: {} is empty: the header is sent without a value", place(value))
    };
    headers.iter().filter(is_empty).map(message)
}

/// Returns the state of each key of a Secret that the plan names. One that a header has counts as invalid if no header can
/// have its value, for whatever else it is used.
pub(in crate::engine) fn secret_states(plan: &Plan, secrets: &impl Secrets) -> Vec<SecretReport> {
    let headers = plan.upstreams.iter().flat_map(|upstream| match &upstream.transport {
        TransportPlan::External { headers, .. } => &headers[..],
        TransportPlan::Process { .. } | TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
            &[]
        }
    });
    let in_headers: BTreeSet<_> = headers
        .filter_map(|header| match &header.value {
            ValueSource::Secret { secret, key, .. } => Some((secret, key.as_str())),
            ValueSource::Literal(_) | ValueSource::Environment(_) => None,
        })
        .collect();
    let state = |(secret, key): (&ObjectKey, &str)| {
        let fit: Fit = if in_headers.contains(&(secret, key)) { header_value } else { Ok };
        SecretReport {
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
            key: key.to_owned(),
            state: secrets.secret(secret, key).and_then(fit).map_or_else(NoSecret::state, |_| SecretState::Found),
        }
    };
    secret_uses(plan).into_iter().map(state).collect()
}

/// Returns the values that must not be shown: those of Secrets and of the gateway's environment, and headers.
pub(super) fn secret_values(plan: &Plan, secrets: &impl Secrets) -> Vec<SecretText> {
    let upstreams = plan.upstreams.iter().flat_map(|upstream| {
        let are_headers = matches!(upstream.transport, TransportPlan::External { .. });
        upstream.transport.values().map(move |named| (named, are_headers))
    });
    let plugins = plan.plugins.iter().flat_map(|plugin| &plugin.env).map(|named| (named, false));
    let others = upstreams.chain(plugins).filter_map(|(named, is_header)| match &named.value {
        ValueSource::Environment(variable) => from_environment(variable, secrets),
        ValueSource::Literal(text) if is_header => Some(SecretText::new(text)),
        ValueSource::Literal(_) | ValueSource::Secret { .. } => None,
    });
    let of_secrets = secret_uses(plan).into_iter().filter_map(|(secret, key)| secrets.secret(secret, key).ok());
    of_secrets.chain(others).chain(written(plan, secrets)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::Reason;

    /// The value of each key is its name, decoded from JSON.
    struct Named;

    impl Secrets for Named {
        fn secret(&self, _: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
            serde_json::from_str::<String>(&format!("\"{key}\"")).map(SecretText::new).map_err(|_| NoSecret::NotFound)
        }

        fn environment(&self, name: &str) -> Option<SecretText> {
            self.secret(&ObjectKey::new("default", "s"), name).ok()
        }
    }

    fn header(name: &str, key: &str) -> NamedValue {
        let secret = ObjectKey::new("default", "s");
        NamedValue { name: name.into(), value: ValueSource::Secret { secret, key: key.into(), optional: false } }
    }

    #[test]
    fn a_value_that_no_header_can_have_is_refused_without_being_shown() {
        let headers = [header("A", "fine"), header("Authorization", "sword\\nfish"), header("B", "a\\u0000")];
        let (known, refusal) = put_in(&headers, &Named, header_value);
        let refusal = refusal.unwrap();
        let message =
            r#"Authorization: key "sword\\nfish" of Secret default/s has a line break or another control character"#;
        assert!(refusal.message.starts_with(message), "{}", refusal.message);
        assert_eq!((refusal.reason, known), (Reason::InvalidSecret, vec![("A".to_owned(), SecretText::new("fine"))]));
        let optional = |key: &str| NamedValue {
            name: "O".into(),
            value: ValueSource::Secret { secret: ObjectKey::new("default", "s"), key: key.into(), optional: true },
        };
        assert!(put_in(&[optional("not there \\")], &Named, header_value).1.is_none(), "it may be missing");
        assert!(put_in(&[optional("a\\n")], &Named, header_value).1.is_some(), "it is there");
        let of_text = |text: &str| {
            let value = ValueSource::Environment(text.to_owned());
            put_in(&[NamedValue { name: "T".into(), value }], &Named, header_value)
        };
        let known = |text: &str| of_text(text).0.into_iter().map(|(_, value)| value.expose().to_owned()).next();
        assert_eq!(known("Bearer ${a}${b:-c}").as_deref(), Some("Bearer ab"));
        // A variable of a process can have lines.
        assert!(put_in(&headers[1..2], &Named, Ok).1.is_none());
        let from_environment = NamedValue { name: "C".into(), value: ValueSource::Environment("a\\r".into()) };
        assert_eq!(put_in(&[from_environment], &Named, header_value).1.unwrap().reason, Reason::InvalidSecret);
    }

    #[test]
    fn an_empty_header_is_told_unless_it_is_written_so() {
        let written = NamedValue { name: "W".into(), value: ValueSource::Literal(String::new()) };
        let headers = [header("A", "fine"), header("B", ""), header("C", " "), written];
        let (known, refusal) = put_in(&headers, &Named, header_value);
        assert!(refusal.is_none());
        let told: Vec<_> = empty_values(&headers, &known).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[0], r#"B: key "" of Secret default/s is empty: the header is sent without a value"#);
    }
}
