//! Checks the rules of a gateway. Rules that cannot be compiled are not taken: the last accepted ones stay in force.

use super::values::config_map;
use crate::config::expr::Expression;
use crate::config::input::Inputs;
use crate::config::variables::OF_RULES;
use crate::domain::ids::Kind;
use crate::domain::plan::{AuthorizationPlan, GatewayPlan, Refusal};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Keeps the rules of the gateway if all of them can be compiled. Otherwise puts the last `accepted` rules in their place, or
/// refuses every call if there are none.
pub(super) fn check(gateway: &mut GatewayPlan, accepted: Option<&GatewayPlan>, problems: &mut Vec<Problem>) {
    let rules = gateway.authorization.iter().flat_map(|written| &written.rules).enumerate();
    let faults: Vec<_> = rules.filter_map(|(at, rule)| Some((at, fault(&rule.when)?))).collect();
    if faults.is_empty() {
        return;
    }
    let kept = accepted.and_then(|accepted| accepted.authorization.clone()).filter(|kept| *kept != nothing());
    let effect = match kept {
        Some(_) => "The last accepted rules stay in force",
        None => "No accepted rules are known, so every call is refused",
    };
    for (at, why) in faults {
        let (object, field) =
            (super::id(Kind::MCPGateway, &gateway.key), format!("spec.authorization.rules[{at}].when"));
        let message = format!("{why}. {effect}");
        if kept.is_none() {
            let refusal = Refusal { reason: Reason::InvalidExpression, message: format!("{field}: {why}") };
            gateway.refusing.get_or_insert(refusal);
        }
        problems.push(Problem::error(Reason::InvalidExpression, object, field, message));
    }
    gateway.authorization = Some(kept.unwrap_or_else(nothing));
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
            Ok(text) => jwt.jwks = Some(text.to_owned()),
            Err((reason, message)) => {
                let known = accepted.iter().flat_map(|accepted| &accepted.authentication.jwt);
                let mut same = known.filter(|known| known.issuer == jwt.issuer && known.jwks_ref == jwt.jwks_ref);
                jwt.jwks = same.find_map(|known| known.jwks.clone());
                let field = format!("spec.authentication.jwt[{at}].jwks.configMapKeyRef");
                problems.push(Problem::error(reason, object.clone(), field, message));
            }
        }
    }
}

fn fault(when: &str) -> Option<String> {
    Expression::compile(when, OF_RULES).err()
}

/// Returns rules that allow nothing.
fn nothing() -> AuthorizationPlan {
    AuthorizationPlan { allows_by_default: false, rules: Vec::new() }
}
