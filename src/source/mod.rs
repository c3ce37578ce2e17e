//! Sources of a gateway's plan: manifests on disk, or the snapshots in a cluster ([`cluster`]).

pub mod cluster;
mod code;
mod commented_json;
pub mod directory;
mod discovered;
pub mod discovery;
pub mod document;
mod doubling_backoff;
mod durable;
mod facts_cache;
pub mod files;
pub mod folder_plugin;
pub mod folders;
pub mod load;
pub mod located;
mod nothing;
mod retained_objects;
pub mod secrets;
pub mod state_folder;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod yaml;

pub use self::code::read_plugin_file;
pub use self::directory::{CompiledManifests, Directory, DirectoryError, DirectorySettings};
pub use self::doubling_backoff::DoublingBackoff;
pub use self::facts_cache::inspected;
pub use self::files::{FileText, read_files};
pub use self::folders::Folders;
pub use self::load::{LoadedManifests, load};
pub use self::located::Located;
pub use self::nothing::unread_folders;
pub use self::secrets::FileSecrets;
pub use self::state_folder::{StateFile, StateFolder};
pub use self::watch::FolderWatch;
