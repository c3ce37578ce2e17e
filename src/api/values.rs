//! Patterns, sizes and free-form JSON for the fields of several kinds, with their schemas.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! http_url {
    () => {
        concat!(
            r"^https?://([^\s/?#@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]]+)",
            r"(:(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5]?[0-9]{1,4}))?([/?#][^\s]*)?$"
        )
    };
}

/// Pattern of object names and of words that become label values.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Pattern of the names of Secrets, ConfigMaps and claims (RFC 1123, subdomain).
pub const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Pattern of keys in the data of Secrets and ConfigMaps.
pub const DATA_KEY: &str = "^[-._a-zA-Z0-9]+$";
/// Pattern of label values.
pub const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$";
/// Pattern of HTTP and HTTPS URLs: perhaps a user, a host or an IP address, perhaps a port of at most 65535, and the rest.
pub const HTTP_URL: &str = http_url!();
/// Pattern of such URLs and of the empty string.
pub const HTTP_URL_OR_NONE: &str = concat!("^$|", http_url!());
/// Pattern of HTTPS URLs, and of HTTP URLs whose host is this machine.
pub const SECURE_URL: &str = r"^(https://[^\s@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/[^\s]*)?)$";
/// Pattern of scopes (RFC 6749, 3.3).
pub const SCOPE: &str = r"^[!#-\[\]-~]+$";
/// Pattern of globs over the names of upstreams and tools.
pub const GLOB: &str = "^[A-Za-z0-9_.*?/-]+$";
/// Pattern of SHA-256 digests in hexadecimal.
pub const SHA256: &str = "^[a-f0-9]{64}$";
/// Pattern of `host:port` addresses to which a plugin or server can connect; the host can contain `*`.
pub const HOST_PORT: &str = "^[A-Za-z0-9*.-]+:[0-9]{1,5}$";
/// Pattern of an IP address, as far as a pattern can tell.
pub const IP_ADDRESS: &str = "^[0-9A-Fa-f.:]+$";
/// Pattern of the tool names that MCP allows.
pub const TOOL_NAME: &str = "^[A-Za-z0-9_.-]+$";
/// Pattern of the HTTP header names that can be configured.
pub const HEADER_NAME: &str = "^[A-Za-z0-9-]+$";
/// Pattern of HTTP header values (RFC 9110, 5.5): no control characters but the tab.
pub const HEADER_VALUE: &str = r"^[^\x00-\x08\x0A-\x1F\x7F]*$";
/// Pattern of names of environment variables.
pub const VARIABLE_NAME: &str = r"^[^=\x00]+$";
/// Pattern of texts that a process can be started with.
pub const NO_NUL: &str = r"^[^\x00]*$";
/// Pattern of URL paths without a query.
pub const URL_PATH: &str = r"^/[^\s?#]*$";
/// Pattern of valid quantities, as text.
pub const QUANTITY: &str = r"^[0-9]+(\.[0-9]+)?([kKMGTPE]i?|m)?$";

/// Pattern of valid quantities that are more than nothing, as text: one of the digits is not 0.
pub const SIZE: &str = r"^([0-9]*[1-9][0-9]*(\.[0-9]+)?|0+\.[0-9]*[1-9][0-9]*)([kKMGTPE]i?|m)?$";

/// A quantity in Kubernetes notation, such as `16Mi`, `64k`, `500m` or `1048576`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Quantity(String);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl From<Written> for Quantity {
    fn from(written: Written) -> Self {
        match written {
            Written::Number(number) => Self(number.to_string()),
            Written::Text(text) => Self(text),
        }
    }
}

impl Quantity {
    /// Returns the quantity as a whole number, rounded up, or `None` if the text is not a quantity. Values that do not
    /// fit into a `u64` become `u64::MAX`.
    pub fn value(&self) -> Option<u64> {
        let end = self.0.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(self.0.len());
        let (number, suffix) = self.0.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        // The text consists of digits, so parsing fails only if the number does not fit.
        let digits: u128 = format!("{whole}{fraction}").parse().unwrap_or(u128::MAX);
        let scale = 10_u128.saturating_pow(u32::try_from(fraction.len()).unwrap_or(u32::MAX));
        let (factor, divisor) = multiplier(suffix)?;
        let value = digits.saturating_mul(factor).div_ceil(scale.saturating_mul(divisor));
        Some(u64::try_from(value).unwrap_or(u64::MAX))
    }
}

/// Returns the factor and the divisor for a suffix, or `None` if the suffix is unknown.
fn multiplier(suffix: &str) -> Option<(u128, u128)> {
    let base: u128 = if suffix.ends_with('i') { 1024 } else { 1000 };
    let power = match suffix.trim_end_matches('i') {
        "m" => return Some((1, 1000)),
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    Some((base.pow(power), 1))
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "minimum": 0, "pattern": QUANTITY})
    }
}

/// A number of bytes from 1, written as a [`Quantity`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Size(Quantity);

impl Size {
    /// Returns the size in bytes; see [`Quantity::value`].
    pub fn value(&self) -> Option<u64> {
        self.0.value()
    }
}

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "minimum": 1, "pattern": SIZE})
    }
}

/// Any JSON object; the schema does not restrict its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeObject(pub Map<String, Value>);

impl JsonSchema for FreeObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FreeObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// Any JSON value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FreeValue(pub Value);

impl JsonSchema for FreeValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FreeValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Option<u64> {
        serde_json::from_str::<Quantity>(json).unwrap().value()
    }

    #[test]
    fn quantities_are_read_as_kubernetes_has_them() {
        for (json, expected) in [
            ("1048576", 1_048_576),
            (r#""1Mi""#, 1_048_576),
            (r#""1.5Ki""#, 1536),
            (r#""2k""#, 2000),
            (r#""1500m""#, 2),
            (r#""0""#, 0),
            (r#""99999999999Ei""#, u64::MAX),
            (r#""9999999999999999999999999999999999999999999""#, u64::MAX),
        ] {
            assert_eq!(value(json), Some(expected), "{json}");
        }
        for json in [r#""""#, r#""Mi""#, r#""1X""#, r#""-1""#, r#""1.2.3""#] {
            assert_eq!(value(json), None, "{json}");
        }
    }

    #[test]
    fn a_size_is_a_quantity_of_one_byte_at_least() {
        let [size, quantity] = [SIZE, QUANTITY].map(|pattern| regex::Regex::new(pattern).unwrap());
        for text in [
            "1", "10Mi", "010", "0.5Ki", "00.01", "1.0", "1500m", "100E", "0", "00", "0.0", "0Mi", "0.00Gi", "0m",
            "1.", "x", "",
        ] {
            let holds = quantity.is_match(text) && Quantity(text.to_owned()).value() > Some(0);
            assert_eq!(size.is_match(text), holds, "{text}");
        }
    }
}
