//! Where a gateway gets its plan: files and folders on disk.

pub mod document;
pub mod files;
pub mod load;
pub mod located;
#[cfg(test)]
mod tests;
pub mod yaml;

pub use self::files::{FileText, read_files};
pub use self::load::{Loaded, load};
pub use self::located::Located;
