//! Where a gateway gets its plan: files and folders on disk.

mod backoff;
pub mod cluster;
mod code;
pub mod directory;
pub mod document;
mod durable;
mod facts;
pub mod files;
pub mod folders;
pub mod load;
pub mod located;
mod nothing;
pub mod secrets;
pub mod state;
#[cfg(test)]
mod tests;
pub mod watch;
pub mod yaml;

pub use self::backoff::RetryBackoff;
pub use self::directory::{Compiled, Directory, DirectoryError, Settings};
pub use self::files::{FileText, read_files};
pub use self::folders::Folders;
pub use self::load::{Loaded, load};
pub use self::located::Located;
pub use self::secrets::FileSecrets;
pub use self::state::{StateFile, StateFolder};
pub use self::watch::Watch;
