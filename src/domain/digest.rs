//! SHA-256 digests. They identify plugin code and revisions.

use std::io::{self, Write};

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

/// Writes bytes to another writer and computes their SHA-256.
pub struct DigestWriter<W> {
    to: W,
    hasher: Sha256,
}

impl<W: Write> DigestWriter<W> {
    /// Makes a writer to `to`.
    pub fn new(to: W) -> Self {
        Self { to, hasher: Sha256::new() }
    }

    /// Returns the SHA-256 of all that was written, in lower-case hex.
    pub fn finish(self) -> String {
        hex(&self.hasher.finalize())
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
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

    #[test]
    fn a_writer_has_the_digest_of_what_it_wrote() {
        let mut written = Vec::new();
        let mut writer = super::DigestWriter::new(&mut written);
        std::io::Write::write_all(&mut writer, b"program").unwrap();
        assert_eq!(writer.finish(), super::sha256_hex(b"program"));
        assert_eq!(written, b"program");
    }
}
