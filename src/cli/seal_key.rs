//! Reads the keys that seal session ids from a file, and follows changes of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::serve::Gateway;
use crate::domain::secret::SecretText;
use crate::engine::SealKeys;

/// How often the file is read again. The file is polled, because a mounted Secret changes by the exchange of symbolic
/// links, not by a write to the file.
const CHECK: Duration = Duration::from_secs(5);
/// Maximum size of the file, in bytes.
const MAX_BYTES: u64 = 4096;

/// Returns the path of the key file in a folder of mounted Secrets: the key `key` of the Secret
/// `{gateway}-gateway-seal`.
pub fn mounted(secrets_dir: &Path, gateway: &str) -> PathBuf {
    secrets_dir.join(format!("{gateway}-gateway-seal")).join("key")
}

/// Gives the keys in `file` to the engine, which seals session ids with them, now and whenever the keys change. Does
/// nothing if `file` is `None`.
///
/// # Errors
/// If `required` is set and the file cannot be read or does not contain valid keys.
pub async fn follow(engine: &Gateway, file: Option<PathBuf>, required: bool) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let mut found = read(&file).await;
    match found.as_ref().map_err(Clone::clone).and_then(|text| share(engine, text)) {
        Err(why) if required => bail!("--seal-key-file {}: {why}", file.display()),
        Err(why) if file.exists() => warn(&file, &why),
        _ => {}
    }
    let engine = Arc::clone(engine);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(CHECK).await;
            let newer = read(&file).await;
            if newer == found {
                continue;
            }
            match newer.as_ref().map_err(Clone::clone).and_then(|text| share(&engine, text)) {
                Ok(()) => tracing::info!(file = %file.display(), "session ids are sealed with new keys"),
                Err(why) => warn(&file, &why),
            }
            found = newer;
        }
    });
    Ok(())
}

fn warn(file: &Path, why: &str) {
    tracing::error!(file = %file.display(), "no keys of session ids are taken from the file: {why}");
}

fn share(engine: &Gateway, text: &SecretText) -> Result<(), String> {
    engine.gate.sessions().share(SealKeys::parse(text)?);
    Ok(())
}

async fn read(file: &Path) -> Result<SecretText, String> {
    let mut bytes = Vec::new();
    // A pipe that nobody writes to would be waited for.
    if !tokio::fs::metadata(file).await.map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = File::open(file).await.map_err(|error| error.to_string())?;
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    if read as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes);
    text.map(SecretText::new).map_err(|_| "it is not base64: make a key with `openssl rand -base64 32`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_holds_no_text_is_refused_and_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-seal-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&folder).unwrap();
        let (raw, pipe) = (folder.join("raw"), folder.join("pipe"));
        std::fs::write(&raw, [7, 0xff, 0]).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let raw = read(&raw).await.unwrap_err();
        assert!(raw.contains("openssl rand -base64 32"), "{raw}");
        let waited = tokio::time::timeout(Duration::from_secs(60), read(&pipe)).await;
        assert_eq!(waited.expect("a pipe is not waited for").unwrap_err(), "it is not a file");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
