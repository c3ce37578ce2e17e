//! Values of secrets: documents of the manifests, a folder of files, the gateway's own environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::ids::ObjectKey;
use crate::domain::ports::Secrets;
use crate::domain::secret::SecretText;

/// The largest value, in bytes: what a Kubernetes Secret holds at the most.
const MAX_VALUE: u64 = 1 << 20;

/// Secrets of a standalone gateway.
#[derive(Debug)]
pub struct FileSecrets {
    documents: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>,
    folder: Option<PathBuf>,
}

impl FileSecrets {
    /// Documents, then files `NAMESPACE/NAME/KEY` or `NAME/KEY` of `folder`, which win.
    pub fn new(documents: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>, folder: Option<PathBuf>) -> Self {
        Self { documents, folder }
    }

    fn in_folder(&self, secret: &ObjectKey, key: &str) -> Option<SecretText> {
        let folder = self.folder.as_ref()?;
        if [&secret.namespace, &secret.name, key].iter().any(|word| word.contains('/') || word.starts_with("..")) {
            return None;
        }
        let qualified = folder.join(&secret.namespace).join(&secret.name).join(key);
        read(&qualified).or_else(|| read(&folder.join(&secret.name).join(key)))
    }
}

fn read(file: &Path) -> Option<SecretText> {
    let size = fs::metadata(file).ok().filter(fs::Metadata::is_file)?.len();
    let text = (size <= MAX_VALUE).then(|| fs::read_to_string(file).ok()).flatten()?;
    // Editors end files with a newline that nobody means.
    Some(SecretText::new(text.strip_suffix('\n').unwrap_or(&text)))
}

impl Secrets for FileSecrets {
    fn secret(&self, secret: &ObjectKey, key: &str) -> Option<SecretText> {
        let document = || self.documents.get(secret)?.get(key).cloned();
        self.in_folder(secret, key).or_else(document)
    }

    fn environment(&self, name: &str) -> Option<SecretText> {
        std::env::var(name).ok().map(SecretText::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_wins_over_a_document() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-secrets-{}", std::process::id()));
        fs::create_dir_all(folder.join("api")).unwrap();
        fs::write(folder.join("api/key"), "from a file\n").unwrap();
        let key = ObjectKey::new("default", "api");
        let values = BTreeMap::from([
            ("key".to_owned(), SecretText::new("from a document")),
            ("other".to_owned(), SecretText::new("only there")),
        ]);
        let secrets = FileSecrets::new(BTreeMap::from([(key.clone(), values)]), Some(folder.clone()));
        let value = |name: &str| secrets.secret(&key, name).map(|v| v.expose().to_owned());
        assert_eq!(value("key").as_deref(), Some("from a file"));
        assert_eq!(value("other").as_deref(), Some("only there"));
        assert_eq!(value("../api/key"), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
