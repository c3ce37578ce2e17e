//! Files that survive a crash: a read returns the complete content, or an error. It also fails for files above a size
//! limit.
//!
//! The first line of a file is the digest of everything below it. A new version is written to a temporary file and then
//! renamed, so a reader sees either the old content or the new.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::domain::digest::sha256_hex;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The file does not exist, or cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file is incomplete, too large, or does not match its digest.
    #[error("is damaged: {0}; it is not used")]
    Damaged(String),
}

/// The length of the line that holds the digest, in bytes.
const DIGEST_LINE: u64 = 65;

/// Returns the content of `file`. Content of more than `max_bytes` counts as damaged.
pub(super) fn read(file: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let max_length = DIGEST_LINE + max_bytes;
    let opened = File::open(file).and_then(|file| file.take(max_length + 1).read_to_end(&mut bytes));
    opened.map_err(ReadError::Unreadable)?;
    if bytes.len() as u64 > max_length {
        return Err(ReadError::Damaged(format!("it has more than {max_bytes} bytes")));
    }
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| ReadError::Damaged("it has no digest".into()))?;
    if sha256_hex(&bytes[end + 1..]).as_bytes() != &bytes[..end] {
        return Err(ReadError::Damaged("its content does not have its digest".into()));
    }
    bytes.drain(..=end);
    Ok(bytes)
}

/// Writes `content` to the file `name` in `folder`, in place of the previous content. Only the owner can read the file,
/// because plans can contain secrets that users wrote into manifests.
pub(super) fn write(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(sha256_hex(content).as_bytes())?;
    file.write_all(b"\n")?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))?;
    File::open(folder)?.sync_all()
}
