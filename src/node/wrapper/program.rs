//! The program that a worker of another language becomes.

use std::path::PathBuf;

use crate::node::installed_code::InstalledCode;

/// The loaders of programs that are linked with libraries, of glibc and musl.
const LOADERS: [&str; 5] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// The folders of the system's libraries.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// The program that a process becomes, and the files that it can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file that is started.
    pub path: PathBuf,
    /// The files that can be run: the program and loaders.
    pub files: Vec<PathBuf>,
    /// Files and folders that the program can read, besides the code.
    pub readable: Vec<PathBuf>,
}

impl Program {
    /// Returns a program that can read the libraries of the system, and these paths.
    pub(super) fn new(path: PathBuf, readable: Vec<PathBuf>) -> Self {
        let loaders = LOADERS.iter().map(PathBuf::from);
        let libraries = LIBRARIES.iter().map(PathBuf::from);
        let (files, readable) =
            ([path.clone()].into_iter().chain(loaders).collect(), libraries.chain(readable).collect());
        Self { path, files, readable }
    }

    /// The program that is the code of a plugin itself.
    pub(super) fn own(code: &InstalledCode) -> Self {
        Self::new(code.entry().to_owned(), Vec::new())
    }
}
