//! SHA-256 of what was written: how revisions are named.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// SHA-256 of `bytes` in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write;
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The first 12 hex characters of the SHA-256 of `value` as JSON.
pub fn revision(value: &impl Serialize) -> String {
    let mut hex = sha256_hex(&serde_json::to_vec(value).unwrap_or_default());
    hex.truncate(12);
    hex
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_the_known_digest() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256_hex(b""), empty);
    }
}
