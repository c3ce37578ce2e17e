//! The argument that names a store or a registry.

use std::convert::Infallible;
use std::str::FromStr;

use crate::store::StoreTarget;

/// The value of `--store` or `--registry`. It is parsed when it is used: an error of the command line would show the value,
/// which can have a password.
#[derive(Clone, Debug)]
pub struct StoreArg(Result<StoreTarget, String>);

impl FromStr for StoreArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl StoreArg {
    /// # Errors
    /// If the value names no database. The error does not have the value.
    pub fn target(&self) -> anyhow::Result<StoreTarget> {
        self.0.clone().map_err(anyhow::Error::msg)
    }

    /// Returns the target for a command that only reads: it does not create a file.
    ///
    /// # Errors
    /// If the value names no database, or a file that does not exist.
    pub fn existing(&self) -> anyhow::Result<StoreTarget> {
        let target = self.target()?;
        if let StoreTarget::Sqlite(path) = &target {
            anyhow::ensure!(path.exists(), "{target}: there is no such file");
        }
        Ok(target)
    }
}
