//! Checks the rules of a gateway. Rules that cannot be compiled or fail a test are not taken: the last accepted ones stay in force.

use serde_json::Value;

use super::values::config_map;
use crate::config::access::AccessTest;
use crate::config::access::authorize::Rules;
use crate::config::expr::Expression;
use crate::config::input::Inputs;
use crate::config::variables::OF_RULES;
use crate::domain::ids::Kind;
use crate::domain::plan::{AuthorizationPlan, GatewayPlan, Refusal, RulePlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// What is wrong with rules: the field, and the message.
type Fault = (Reason, String, String);

/// Keeps the rules of the gateway if all of them can be compiled and pass their `tests`. Otherwise puts the last `accepted` rules
/// in their place, or refuses every call if there are none.
pub(super) fn check(
    gateway: &mut GatewayPlan,
    tests: &[Result<AccessTest, String>],
    accepted: Option<&GatewayPlan>,
    problems: &mut Vec<Problem>,
) {
    let Some(written) = &gateway.authorization else { return };
    let mut faults = invalid_conditions(written);
    if faults.is_empty() {
        faults = failed_tests(written, tests);
    }
    if faults.is_empty() {
        return;
    }
    let kept = accepted.and_then(|accepted| accepted.authorization.clone()).filter(|kept| *kept != nothing());
    let effect = match kept {
        Some(_) => "The last accepted rules stay in force",
        None => "No accepted rules are known, so every call is refused",
    };
    let object = super::id(Kind::MCPGateway, &gateway.key);
    for (reason, field, why) in faults {
        let message = format!("{why}. {effect}");
        if kept.is_none() {
            // Clients see this message.
            let message = format!("{field} is not valid: the status of the gateway says why");
            gateway.refusing.get_or_insert(Refusal { reason, message });
        }
        problems.push(Problem::error(reason, object.clone(), field, message));
    }
    gateway.authorization = Some(kept.unwrap_or_else(nothing));
}

fn invalid_conditions(written: &AuthorizationPlan) -> Vec<Fault> {
    let rules = written.rules.iter().enumerate();
    let fault = |(at, rule): (usize, &RulePlan)| {
        let why = Expression::compile(&rule.when, OF_RULES).err()?;
        Some((Reason::InvalidExpression, format!("spec.authorization.rules[{at}].when"), why))
    };
    rules.filter_map(fault).collect()
}

fn failed_tests(written: &AuthorizationPlan, tests: &[Result<AccessTest, String>]) -> Vec<Fault> {
    let rules = Rules::new(written);
    let failure = |(at, test): (usize, &Result<AccessTest, String>)| {
        let why = test.as_ref().map_or_else(|why| Some(why.clone()), |test| test.failure(&rules))?;
        Some((Reason::InvalidConfig, format!("spec.authorization.tests[{at}]"), why))
    };
    tests.iter().enumerate().filter_map(failure).collect()
}

/// Puts the keys of issuers that ConfigMaps have into the gateway. Of a ConfigMap that cannot be read, the last `accepted` keys
/// stay; without them, tokens of the issuer cannot be checked.
pub(super) fn put_keys(
    gateway: &mut GatewayPlan,
    inputs: &Inputs,
    accepted: Option<&GatewayPlan>,
    problems: &mut Vec<Problem>,
) {
    let (key, object) = (gateway.key.clone(), super::id(Kind::MCPGateway, &gateway.key));
    for (at, jwt) in gateway.authentication.jwt.iter_mut().enumerate() {
        let Some((name, entry)) = &jwt.jwks_ref else { continue };
        match config_map(inputs, &key.namespace, name, entry) {
            Ok(text) if is_key_set(text) => jwt.jwks = Some(text.to_owned()),
            found => {
                let no_set =
                    || format!("key {entry:?} of ConfigMap {name} has no JSON Web Key Set: {{\"keys\": [..]}}");
                let (reason, message) = found.err().unwrap_or_else(|| (Reason::InvalidConfig, no_set()));
                let known = accepted.iter().flat_map(|accepted| &accepted.authentication.jwt);
                let mut same = known.filter(|known| known.issuer == jwt.issuer && known.jwks_ref == jwt.jwks_ref);
                jwt.jwks = same.find_map(|known| known.jwks.clone());
                let effect = match jwt.jwks {
                    Some(_) => "The last keys stay in force",
                    None => "Tokens of this issuer cannot be checked, and are refused",
                };
                let message = format!("{message}. {effect}");
                let field = format!("spec.authentication.jwt[{at}].jwks.configMapKeyRef");
                problems.push(Problem::error(reason, object.clone(), field, message));
            }
        }
    }
}

/// Whether a text is a set with keys (RFC 7517, section 5). The check of tokens leaves out keys that it cannot use.
fn is_key_set(text: &str) -> bool {
    let set: Value = serde_json::from_str(text).unwrap_or_default();
    set["keys"].as_array().is_some_and(|keys| keys.iter().any(|key| key["kty"].is_string()))
}

/// Returns rules that allow nothing.
fn nothing() -> AuthorizationPlan {
    AuthorizationPlan { allows_by_default: false, rules: Vec::new() }
}
