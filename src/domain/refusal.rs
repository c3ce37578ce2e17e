//! Refused credentials, as operators see them. Nothing here has a token or a key.

use serde::Serialize;
use serde_json::Value;

/// The maximum length of a text of a token, in characters.
const MAX_TEXT: usize = 256;
/// The maximum number of values of a claim.
const MAX_VALUES: usize = 16;

/// Why a credential is refused. The names are in metrics and in the admin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The request has no credential.
    NoCredentials,
    /// The request has several credentials, or one in a wrong place or form.
    InvalidRequest,
    /// The credential is longer than the gateway reads.
    TooLong,
    /// It is no JSON Web Token.
    NotAToken,
    /// No issuer of the gateway has issued the token.
    UnknownIssuer,
    /// The algorithm of the token is not accepted.
    WrongAlgorithm,
    /// The header of the token requires what is not supported, or is not that of an access token.
    WrongHeader,
    /// The issuer publishes no key for the token.
    UnknownKey,
    /// The signature is not valid.
    WrongSignature,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYetValid,
    /// The token is for another audience.
    WrongAudience,
    /// The token lacks a claim, or has one that cannot be used.
    InvalidClaim,
    /// The credential is no API key of the gateway.
    UnknownApiKey,
    /// The token is not of a service account.
    NotAServiceAccount,
    /// The API server does not accept the token.
    ReviewFailed,
    /// The credential cannot be checked now.
    Unavailable,
}

impl Fault {
    /// Returns the name of the fault.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoCredentials => "NoCredentials",
            Self::InvalidRequest => "InvalidRequest",
            Self::TooLong => "TooLong",
            Self::NotAToken => "NotAToken",
            Self::UnknownIssuer => "UnknownIssuer",
            Self::WrongAlgorithm => "WrongAlgorithm",
            Self::WrongHeader => "WrongHeader",
            Self::UnknownKey => "UnknownKey",
            Self::WrongSignature => "WrongSignature",
            Self::Expired => "Expired",
            Self::NotYetValid => "NotYetValid",
            Self::WrongAudience => "WrongAudience",
            Self::InvalidClaim => "InvalidClaim",
            Self::UnknownApiKey => "UnknownApiKey",
            Self::NotAServiceAccount => "NotAServiceAccount",
            Self::ReviewFailed => "ReviewFailed",
            Self::Unavailable => "Unavailable",
        }
    }
}

/// What a token has, or what the gateway accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct TokenValues {
    /// The issuers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iss: Vec<String>,
    /// The audiences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
    /// The time of expiry, in Unix seconds; of what is accepted, the earliest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// The ids of keys; of what is accepted, those that the issuer publishes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kid: Vec<String>,
}

impl TokenValues {
    /// Returns the strings of a claim, in limits: a string, or those of a list.
    pub fn texts(claim: Option<&Value>) -> Vec<String> {
        match claim {
            Some(Value::Array(items)) => Self::bounded(items.iter().filter_map(Value::as_str)),
            Some(Value::String(text)) => Self::bounded([&**text]),
            _ => Vec::new(),
        }
    }

    /// Returns the texts in limits.
    pub fn bounded<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        texts.into_iter().take(MAX_VALUES).map(|text| text.chars().take(MAX_TEXT).collect()).collect()
    }
}

/// What is known of a token that is refused, from its text alone: its signature can be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFacts {
    /// What the token has.
    pub found: TokenValues,
    /// What the gateway accepts: for the token's issuer, or for all issuers if it knows none such.
    pub accepted: TokenValues,
}

/// Refusals that have these in common are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefusalKind {
    /// The name of the listener; `admin` for the admin API.
    pub listener: String,
    /// Why the credential is refused.
    pub fault: Fault,
    /// The issuer that the token names; empty without one.
    pub issuer: String,
    /// The audiences that the token names, separated by spaces.
    pub audience: String,
    /// The address of the client, or its network of IPv6.
    pub address: String,
}

impl RefusalKind {
    /// Returns the kind of a refusal with these facts.
    pub fn new(listener: &str, fault: Fault, facts: &TokenFacts, address: String) -> Self {
        let audience = facts.found.aud.join(" ").chars().take(MAX_TEXT).collect();
        let issuer = facts.found.iss.first().cloned().unwrap_or_default();
        Self { listener: listener.to_owned(), fault, issuer, audience, address }
    }
}
