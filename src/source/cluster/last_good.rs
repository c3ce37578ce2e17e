//! Stores the last good revision on disk, for a start without the API server.
//!
//! One file holds the revision's entry in the index, its shards, and the extras of the index at that time. Later extras
//! go to a small second file, so that a large plan is not written again. If either file is damaged, neither is used.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::received::{IndexExtras, Version};
use crate::api::snapshot::{Shard, SnapshotRevision};
use crate::domain::ids::ObjectKey;
use crate::source::durable::{self, ReadError};

/// The largest snapshot file that is read, in bytes: room for as many shards as an index can name, each of the largest
/// size.
const MAX_FILE: u64 = 700 << 20;
const FILE: &str = "last-good-snapshot";
/// The name of the file of later extras, and the size of the largest such file that is read, in bytes.
const EXTRAS: &str = "last-good-extras";
const MAX_EXTRAS: u64 = 4 << 20;

/// The content of the snapshot file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SnapshotFile {
    /// The gateway whose revision this is.
    pub(super) gateway: ObjectKey,
    /// The version of the index that named the revision.
    pub(super) version: Version,
    /// The revision's entry in the index.
    pub(super) revision: SnapshotRevision,
    /// The shards, each with its name.
    pub(super) shards: Vec<(String, Shard)>,
    /// The extras of the index at `version`.
    #[serde(flatten)]
    pub(super) extras: IndexExtras,
}

/// The content of the file of later extras.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptExtras {
    /// The gateway that the index belongs to.
    pub(super) gateway: ObjectKey,
    pub(super) version: Version,
    /// The revision that the gateway ran when the index was at `version`.
    pub(super) revision: String,
    /// The extras of the index at `version`.
    #[serde(flatten)]
    pub(super) extras: IndexExtras,
}

/// Why there is no stored revision to start from.
#[derive(Debug, thiserror::Error)]
pub(super) enum LastGoodError {
    /// A file does not exist or cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// A file is incomplete or was changed.
    #[error("{} is damaged: {why}; it is not used", path.display())]
    Damaged { path: PathBuf, why: String },
    /// A file belongs to another gateway.
    #[error("{} is of gateway {of}; it is not used. Give each gateway a folder of its own", path.display())]
    Foreign {
        path: PathBuf,
        /// The gateway that the file belongs to.
        of: ObjectKey,
    },
}

/// The state folder of one gateway.
#[derive(Clone, Debug)]
pub(super) struct LastGood {
    folder: PathBuf,
    gateway: ObjectKey,
}

impl LastGood {
    pub(super) fn new(folder: PathBuf, gateway: ObjectKey) -> Self {
        Self { folder, gateway }
    }

    /// Reads the stored revision with the latest extras.
    pub(super) fn read(&self) -> Result<SnapshotFile, LastGoodError> {
        let kept: SnapshotFile = self.read_file(FILE, MAX_FILE, |kept: &SnapshotFile| &kept.gateway)?;
        let extras = match self.read_file(EXTRAS, MAX_EXTRAS, |extras: &KeptExtras| &extras.gateway) {
            Err(LastGoodError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(kept),
            extras => extras?,
        };
        // If a revision becomes usable while the index stays the same, the stored extras still belong to the revision
        // that ran before.
        let is_of_another = extras.revision != kept.revision.revision;
        if extras.version.is_before(&kept.version) || (is_of_another && extras.version == kept.version) {
            return Ok(kept);
        }
        if is_of_another {
            let why = format!("it is of revision {}, and {FILE} holds {}", extras.revision, kept.revision.revision);
            return Err(LastGoodError::Damaged { path: self.folder.join(EXTRAS), why });
        }
        Ok(SnapshotFile { version: extras.version, extras: extras.extras, ..kept })
    }

    fn read_file<T: DeserializeOwned>(
        &self,
        file: &str,
        max_bytes: u64,
        gateway: impl Fn(&T) -> &ObjectKey,
    ) -> Result<T, LastGoodError> {
        let path = self.folder.join(file);
        let damaged = |why: String| LastGoodError::Damaged { path: path.clone(), why };
        let json = durable::read(&path, max_bytes).map_err(|error| match error {
            ReadError::Unreadable(error) => LastGoodError::Unreadable { path: path.clone(), error },
            ReadError::Damaged(why) => damaged(why),
        })?;
        let kept: T = serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        let of = gateway(&kept);
        if *of != self.gateway {
            return Err(LastGoodError::Foreign { of: of.clone(), path });
        }
        Ok(kept)
    }

    /// Stores extras that are newer than the stored revision.
    pub(super) fn write_extras(&self, extras: &KeptExtras) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        durable::write(&self.folder, EXTRAS, &serde_json::to_vec(extras)?)
    }

    /// Replaces the stored revision. A reader sees either the old one or the new one, complete.
    pub(super) fn write(&self, kept: &SnapshotFile) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        durable::write(&self.folder, FILE, &serde_json::to_vec(kept)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::api::snapshot::tests::empty_revision;
    use crate::domain::plan::{Refusal, Restrictions, Revoked};
    use crate::domain::reason::Reason;

    fn kept(revision: &str) -> SnapshotFile {
        SnapshotFile {
            gateway: ObjectKey::new("mcp", "main"),
            version: Version::default(),
            revision: empty_revision(revision),
            shards: Vec::new(),
            extras: IndexExtras::default(),
        }
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hawsepipe-state-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_kept_comes_back_and_the_next_takes_its_place() {
        let folder = folder("kept");
        let state = LastGood::new(folder.clone(), ObjectKey::new("mcp", "main"));
        assert!(matches!(state.read(), Err(LastGoodError::Unreadable { .. })), "nothing was kept yet");
        for revision in ["first", "second"] {
            state.write(&kept(revision)).unwrap();
            assert_eq!(state.read().unwrap().revision.revision, revision);
        }
        let other = LastGood::new(folder.clone(), ObjectKey::new("mcp", "other"));
        assert!(matches!(other.read(), Err(LastGoodError::Foreign { .. })));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_index_says_later_is_kept_beside_the_revision_and_not_of_another() {
        let folder = folder("extras");
        let state = LastGood::new(folder.clone(), ObjectKey::new("mcp", "main"));
        let stop = Restrictions { stopped: true, ..Restrictions::default() };
        let mut extras = IndexExtras { restrictions: Some(stop), ..IndexExtras::default() };
        extras.seen_names.add(&ObjectKey::new("mcp", "up"), ["read"]);
        let at = |generation| Version { generation, ..Version::default() };
        let later = |revision: &str, generation, extras: &IndexExtras| KeptExtras {
            gateway: ObjectKey::new("mcp", "main"),
            version: at(generation),
            revision: revision.to_owned(),
            extras: extras.clone(),
        };
        state.write(&SnapshotFile { version: at(5), ..kept("first") }).unwrap();
        let whole = fs::read(folder.join(FILE)).unwrap();
        state.write_extras(&later("first", 7, &extras)).unwrap();
        assert_eq!(fs::read(folder.join(FILE)).unwrap(), whole, "the plan is not written again");
        let read = state.read().unwrap();
        assert_eq!((read.revision.revision.as_str(), read.extras, read.version), ("first", extras.clone(), at(7)));
        // The next revision has extras of its own, and the older ones no longer count.
        state.write(&SnapshotFile { version: at(8), ..kept("second") }).unwrap();
        assert_eq!(state.read().unwrap().extras, IndexExtras::default());
        // The same holds if the index of the older extras already named the new revision, which could not be used at
        // first.
        state.write_extras(&later("first", 8, &extras)).unwrap();
        assert_eq!(state.read().unwrap().revision.revision, "second");
        assert_eq!(state.read().unwrap().extras, IndexExtras::default());
        // Later extras of another revision, or damaged ones, are not ignored, because they may contain a stop.
        state.write_extras(&later("third", 9, &extras)).unwrap();
        assert!(matches!(state.read(), Err(LastGoodError::Damaged { .. })));
        fs::write(folder.join(EXTRAS), "torn").unwrap();
        assert!(matches!(state.read(), Err(LastGoodError::Damaged { .. })));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_a_version_before_wrote_is_read() {
        let mut older = serde_json::to_value(kept("first")).unwrap();
        let fields = older.as_object_mut().unwrap();
        assert!(fields.remove("seenNames").is_some());
        assert_eq!(fields.insert("restrictions".to_owned(), Value::Null), Some(Value::Null));
        assert_eq!(serde_json::from_value::<SnapshotFile>(older).unwrap().extras, IndexExtras::default());
    }

    /// Parses a file of an earlier version that stored these restrictions.
    fn older(restrictions: &str) -> Result<IndexExtras, serde_json::Error> {
        let text = r#"{"gateway":{"namespace":"mcp","name":"main"},"version":{"uid":"u","generation":3,"resource_version":9},"revision":{"revision":"first","formatVersion":1,"shards":[]},"shards":[],RESTRICTIONS"seenNames":{"mcp/up":["read"]}}"#;
        serde_json::from_str::<SnapshotFile>(&text.replace("RESTRICTIONS", restrictions)).map(|kept| kept.extras)
    }

    #[test]
    fn restrictions_under_their_earlier_name_count() {
        let stored = r#""acts":{"stopped":true,"stop_cancels":false,"refusing":null,"revoked":[{"Upstream":{"namespace":"team","name":"up"}},{"Plugin":{"plugin":{"namespace":"team","name":"gone"},"chain":null,"refusal":{"reason":"PluginNotFound","message":"there is no Plugin team/gone"}}}]},"#;
        let plugin = ObjectKey::new("team", "gone");
        let refusal = Refusal::of_revoked(Reason::PluginNotFound, &plugin);
        let revoked =
            vec![Revoked::Upstream(ObjectKey::new("team", "up")), Revoked::Plugin { plugin, chain: None, refusal }];
        let expected = Restrictions { stopped: true, revoked, ..Restrictions::default() };
        assert_eq!(older(stored).unwrap().restrictions, Some(expected));
        assert_eq!(older(r#""acts":null,"#).unwrap().restrictions, None);
        // If the field is missing or has an unknown name, the file is refused, and not read as one without
        // restrictions.
        assert!(older("").is_err());
        assert!(older(&stored.replace("acts", "limits")).is_err());
    }

    #[test]
    fn restrictions_that_this_version_does_not_know_refuse_every_call() {
        for (unknown, is_stopped) in [
            (r#"{"stopped":true,"stop_cancels":false,"refusing":null,"revoked":[],"paused":["team"]}"#, true),
            (r#"{"stopped":false,"stop_cancels":false,"refusing":null,"revoked":[{"Identity":"i"}]}"#, false),
            (r#"{"stopped":"Soon"}"#, false),
        ] {
            let found = older(&format!(r#""restrictions":{unknown},"#)).unwrap().restrictions.unwrap();
            assert_eq!(found.refusing.unwrap().reason, Reason::UnknownFormat, "{unknown}");
            assert_eq!(found.stopped, is_stopped, "what is understood counts");
        }
    }

    #[test]
    fn a_torn_or_changed_file_is_refused() {
        let folder = folder("torn");
        let state = LastGood::new(folder.clone(), ObjectKey::new("mcp", "main"));
        state.write(&kept("first")).unwrap();
        let whole = fs::read(folder.join(FILE)).unwrap();
        let mut changed = whole.clone();
        let last = changed.len() - 20;
        changed[last] ^= 1;
        for damaged in [&whole[..whole.len() / 2], &whole[..10], b"", &changed] {
            fs::write(folder.join(FILE), damaged).unwrap();
            assert!(matches!(state.read(), Err(LastGoodError::Damaged { .. })));
        }
        // The temporary file of an interrupted write is ignored.
        fs::write(folder.join(FILE), &whole).unwrap();
        fs::write(folder.join(format!("{FILE}.new")), "torn").unwrap();
        assert_eq!(state.read().unwrap().revision.revision, "first");
        state.write(&kept("second")).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
