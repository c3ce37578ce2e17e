//! The argument that names a store or a registry.

use std::convert::Infallible;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::str::FromStr;

use crate::store::StoreTarget;

/// The beginning of each SQLite file.
const MARK: &[u8; 16] = b"SQLite format 3\0";

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
            let mut head = [0; MARK.len()];
            let found = File::open(path).and_then(|mut file| file.read_exact(&mut head));
            let is_database = match found {
                Ok(()) => &head == MARK,
                Err(why) if why.kind() == ErrorKind::UnexpectedEof => false,
                Err(why) => anyhow::bail!("{target}: the file cannot be read: {why}"),
            };
            anyhow::ensure!(
                is_database,
                "{target}: the file is no SQLite database: give the file of --store of the gateway"
            );
        }
        Ok(target)
    }
}
