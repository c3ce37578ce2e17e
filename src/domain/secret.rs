//! A value that must not be seen, and why there is none.

use std::collections::BTreeSet;
use std::fmt;

use super::ids::ObjectKey;
use super::plan::{Plan, TransportPlan, ValueSource};
use super::reason::Reason;
use super::report::SecretState;

/// The largest value, in bytes: what a Kubernetes Secret holds at the most.
pub const MAX_VALUE: usize = 1 << 20;

/// Text from a Secret or an environment variable. It does not print, log or serialise.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a value as it comes in.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The text of a value that was read. Editors end files with a newline that nobody means: it is left out.
///
/// # Errors
/// `Invalid` for what is no UTF-8 text, or larger than [`MAX_VALUE`].
pub fn text_of(bytes: &[u8]) -> Result<SecretText, NoSecret> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_VALUE).ok_or(NoSecret::Invalid)?;
    Ok(SecretText::new(text.strip_suffix('\n').unwrap_or(text)))
}

/// Every key of a Secret that a plan names, once, in order.
pub fn secret_uses(plan: &Plan) -> BTreeSet<(&ObjectKey, &str)> {
    let upstreams = plan.upstreams.iter().flat_map(|upstream| match &upstream.transport {
        TransportPlan::External { headers, .. } => &headers[..],
        TransportPlan::Process { env, .. } => &env[..],
        TransportPlan::None => &[],
    });
    let values = upstreams.chain(plan.plugins.iter().flat_map(|plugin| &plugin.env));
    let named = values.filter_map(|named| match &named.value {
        ValueSource::Secret { secret, key, .. } => Some((secret, key.as_str())),
        ValueSource::Literal(_) | ValueSource::Environment(_) => None,
    });
    named.collect()
}

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSecret {
    /// No such Secret, or no such key in it.
    NotFound,
    /// It is another namespace's, and its owner has not granted it.
    NotGranted,
    /// It is no UTF-8 text, or too large.
    Invalid,
    /// It could not be asked for yet.
    NotRead,
}

impl NoSecret {
    /// The word of the closed list.
    pub fn reason(self) -> Reason {
        match self {
            Self::NotFound | Self::NotRead => Reason::SecretNotFound,
            Self::NotGranted => Reason::SecretNotGranted,
            Self::Invalid => Reason::InvalidSecret,
        }
    }

    /// The word of a pod's report.
    pub fn state(self) -> SecretState {
        match self {
            Self::NotFound | Self::NotRead => SecretState::NotFound,
            Self::NotGranted => SecretState::NotGranted,
            Self::Invalid => SecretState::Invalid,
        }
    }

    /// What is wrong with `place`, such as `key "a" of Secret b/c`.
    pub fn message(self, place: &str) -> String {
        match self {
            Self::NotFound => format!("there is no {place}"),
            Self::NotRead => format!("the API server has not said yet whether there is {place}"),
            Self::NotGranted => format!(
                "{place} is not granted to this gateway: its owner has to bind the gateway's service account to a Role \
                 with get and watch on it"
            ),
            Self::Invalid => format!("{place} is no UTF-8 text, or larger than {MAX_VALUE} bytes"),
        }
    }
}
