//! Values of secrets, from Secret documents in the manifests, a folder of files, and the gateway's own environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::ids::ObjectKey;
use crate::domain::ports::Secrets;
use crate::domain::secret::{MAX_VALUE, NoSecret, SecretText, text_of};

/// The maximum number of subfolders that are watched in one folder.
const MAX_FOLDERS: usize = 1000;
/// The maximum number of keys that are read if all keys of a Secret are.
const MAX_KEYS: usize = 10_000;

/// The values of Secret documents and of a folder of files.
#[derive(Debug)]
pub struct FileSecrets {
    documents: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>,
    folder: Option<PathBuf>,
    /// A folder with the Secrets of which all keys are read, as files `NAME/KEY`.
    api_keys: Option<PathBuf>,
    /// The namespace whose Secrets can be at `NAME/KEY` instead of `NAMESPACE/NAME/KEY`; `None` means every namespace.
    namespace: Option<String>,
}

impl FileSecrets {
    /// Creates the values from `documents`, and from the files `NAMESPACE/NAME/KEY` or `NAME/KEY` of `folder`. A file
    /// takes precedence over a document.
    pub fn new(documents: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>, folder: Option<PathBuf>) -> Self {
        Self { documents, folder, api_keys: None, namespace: None }
    }

    /// Creates the values from the files of `folder`: `NAME/KEY` for Secrets of `namespace`, and `NAMESPACE/NAME/KEY`
    /// for Secrets of any namespace.
    pub fn mounted(namespace: &str, folder: Option<PathBuf>) -> Self {
        Self { documents: BTreeMap::new(), folder, api_keys: None, namespace: Some(namespace.to_owned()) }
    }

    /// Returns the same values, and those of Secrets with API keys, which are at `NAME/KEY` of `folder`.
    pub fn with_api_keys(self, folder: Option<PathBuf>) -> Self {
        Self { api_keys: folder, ..self }
    }

    /// Returns the folders in which changes can affect a value.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        // Values are one or two levels below the folder.
        let roots = || self.folder.iter().chain(&self.api_keys);
        let below: Vec<_> = roots().flat_map(|folder| folders_in(folder)).collect();
        let mut folders: BTreeSet<_> = below.iter().flat_map(|folder| folders_in(folder)).collect();
        folders.extend(roots().cloned().chain(below));
        folders
    }

    /// Returns the folders that can have the files of a Secret.
    fn places(&self, secret: &ObjectKey) -> Vec<PathBuf> {
        if [&secret.namespace, &secret.name].iter().any(|word| word.contains('/') || word.starts_with("..")) {
            return Vec::new();
        }
        let may_be_bare = self.namespace.as_ref().is_none_or(|namespace| *namespace == secret.namespace);
        let named = self.folder.iter().map(|folder| folder.join(&secret.namespace).join(&secret.name));
        let bare = self.folder.iter().chain(&self.api_keys).filter(|_| may_be_bare).map(|it| it.join(&secret.name));
        named.chain(bare).collect()
    }

    fn in_folder(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
        if key.contains('/') || key.starts_with("..") {
            return Err(NoSecret::NotFound);
        }
        let mut found = self.places(secret).into_iter().map(|place| read(&place.join(key)));
        found.find(|found| *found != Err(NoSecret::NotFound)).unwrap_or(Err(NoSecret::NotFound))
    }
}

/// Lists the subfolders of a folder.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().filter_map(|found| Some(found.ok()?.path()));
    found.filter(|path| path.is_dir()).take(MAX_FOLDERS).collect()
}

fn read(file: &Path) -> Result<SecretText, NoSecret> {
    let found = fs::metadata(file).ok().filter(fs::Metadata::is_file).ok_or(NoSecret::NotFound)?;
    if found.len() > MAX_VALUE as u64 {
        return Err(NoSecret::Invalid);
    }
    text_of(&fs::read(file).map_err(|_| NoSecret::NotFound)?)
}

impl Secrets for FileSecrets {
    fn secret(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
        let document = || self.documents.get(secret)?.get(key).cloned();
        match self.in_folder(secret, key) {
            Err(NoSecret::NotFound) => document().ok_or(NoSecret::NotFound),
            found => found,
        }
    }

    fn keys(&self, secret: &ObjectKey) -> BTreeSet<String> {
        let documents = self.documents.get(secret).into_iter().flat_map(|values| values.keys().cloned());
        let files = self.places(secret).into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
        let files = files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.is_file());
        let names = files.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        documents.chain(names.filter(|name| !name.starts_with('.'))).take(MAX_KEYS).collect()
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
        assert_eq!(value("key").as_deref(), Ok("from a file"));
        assert_eq!(value("other").as_deref(), Ok("only there"));
        assert_eq!(value("../api/key"), Err(NoSecret::NotFound));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_bare_name_is_of_the_gateways_own_namespace() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-mounted-{}", std::process::id()));
        for (file, text) in [("api/key", "own"), ("api/bytes", ""), ("finance/ledger/key", "theirs")] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::write(folder.join("api/bytes"), [0xff, 0xfe]).unwrap();
        let secrets = FileSecrets::mounted("mcp", Some(folder.clone()));
        let value = |namespace: &str, name: &str, key: &str| {
            secrets.secret(&ObjectKey::new(namespace, name), key).map(|v| v.expose().to_owned())
        };
        assert_eq!(value("mcp", "api", "key").as_deref(), Ok("own"));
        assert_eq!(value("finance", "api", "key"), Err(NoSecret::NotFound));
        assert_eq!(value("finance", "ledger", "key").as_deref(), Ok("theirs"));
        assert_eq!(value("mcp", "api", "bytes"), Err(NoSecret::Invalid));
        assert!(secrets.folders().contains(&folder.join("finance/ledger")));
        fs::remove_dir_all(folder).unwrap();
    }
}
