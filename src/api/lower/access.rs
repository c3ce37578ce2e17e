//! Lowers the authentication and the authorization of clients.

use super::findings::Findings;
use crate::api::gateway::access::{AccessRule, Algorithm, ApiKeys, Authentication, Authorization, Effect, Jwt};
use crate::api::gateway::inbound::{Admin, AdminAuthentication, TokenReview};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{
    AdminMethodsPlan, ApiKeysPlan, AuthenticationPlan, AuthorizationPlan, JwtPlan, ResourcePlan, RulePlan,
    TokenReviewPlan,
};

/// All algorithms that can be accepted.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Returns how clients of the admin API authenticate. `namespace` is that of the gateway.
pub(super) fn admin(written: Option<&Admin>, namespace: &str, findings: &mut Findings) -> AdminMethodsPlan {
    let written = written.and_then(|admin| admin.authentication.as_ref());
    let Some(AdminAuthentication { token_review: review, token_secret_ref: secret }) = written else {
        return AdminMethodsPlan::default();
    };
    findings.served_in_cluster(review.is_some(), "spec.admin.authentication.tokenReview");
    AdminMethodsPlan {
        secret: secret.as_ref().map(|it| (ObjectKey::new(namespace, &it.name), it.key.clone())),
        token_review: review.as_ref().map(token_review),
    }
}

fn token_review(written: &TokenReview) -> TokenReviewPlan {
    TokenReviewPlan { audiences: written.audiences.clone().unwrap_or_default() }
}

/// `namespace` is that of the gateway.
pub(super) fn authentication(written: &Authentication, namespace: &str, findings: &mut Findings) -> AuthenticationPlan {
    findings.served_in_cluster(written.token_review.is_some(), "spec.authentication.tokenReview");
    let jwt: Vec<_> = written.jwt.iter().flatten().map(issuer).collect();
    let resource = written.resource_metadata.as_ref().map(|metadata| ResourcePlan {
        resource: metadata.resource.clone(),
        authorization_servers: metadata
            .authorization_servers
            .clone()
            .unwrap_or_else(|| jwt.iter().map(|jwt| jwt.issuer.clone()).collect()),
        scopes: metadata.scopes_supported.clone().unwrap_or_default(),
        documentation: metadata.documentation.clone(),
    });
    let api_keys = written.api_keys.as_ref().map(|keys| api_keys(keys, namespace));
    AuthenticationPlan { jwt, api_keys, token_review: written.token_review.as_ref().map(token_review), resource }
}

fn api_keys(written: &ApiKeys, namespace: &str) -> ApiKeysPlan {
    let subjects = written.subjects.iter().flatten();
    ApiKeysPlan {
        header: written.header.clone().filter(|header| !header.eq_ignore_ascii_case("authorization")),
        secrets: written.secret_refs.iter().map(|secret| ObjectKey::new(namespace, &secret.name)).collect(),
        groups: subjects.map(|subject| (subject.name.clone(), subject.groups.clone().unwrap_or_default())).collect(),
    }
}

fn issuer(written: &Jwt) -> JwtPlan {
    let claims = written.claims.clone().unwrap_or_default();
    let listed = written.algorithms.as_deref().filter(|listed| !listed.is_empty()).unwrap_or(&ALGORITHMS);
    let jwks = written.jwks.as_ref();
    JwtPlan {
        issuer: written.issuer.clone(),
        audiences: written.audiences.clone(),
        algorithms: listed.iter().map(|algorithm| format!("{algorithm:?}")).collect(),
        jwks_uri: jwks.and_then(|jwks| jwks.uri.clone()),
        jwks_ref: jwks.and_then(|jwks| jwks.config_map_key_ref.as_ref()).map(|it| (it.name.clone(), it.key.clone())),
        jwks: None,
        refresh_seconds: jwks.and_then(|jwks| jwks.refresh_seconds).unwrap_or(300),
        subject_claim: claims.subject.unwrap_or_else(|| "sub".to_owned()),
        groups_claim: claims.groups.unwrap_or_else(|| "groups".to_owned()),
        skew_seconds: written.clock_skew_seconds.unwrap_or(30),
    }
}

pub(super) fn authorization(written: &Authorization) -> AuthorizationPlan {
    let rule = |rule: &AccessRule| RulePlan {
        name: rule.name.clone(),
        denies: rule.effect == Effect::Deny,
        when: rule.when.clone(),
        message: rule.message.clone(),
        scopes: rule.scopes.clone().unwrap_or_default(),
    };
    AuthorizationPlan {
        allows_by_default: written.default == Some(Effect::Allow),
        rules: written.rules.iter().map(rule).collect(),
    }
}
