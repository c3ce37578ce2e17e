//! SHA-256 digests. They identify plugin code and revisions.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Returns the SHA-256 of `bytes` in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Serializes `value` to JSON, and returns the first 12 hex characters of its SHA-256.
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
