//! Plugin code on disk: each revision has a private folder, so that no later edit of the original file reaches a
//! worker. Files beside the original that the code can import are copied too, within limits, so that later workers run
//! the same code as the first. Other files and folders are linked.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::private::PrivateFolder;
use crate::domain::digest::{DigestWriter, sha256_hex};
use crate::domain::plan::{PluginPlan, program_digest};

/// The maximum number of entries of a plugin's original folder that are copied or linked.
const MAX_SIBLINGS: usize = 1000;

/// Extensions of the files that are copied, up to `MAX_COPIED` bytes in total.
const IMPORTED: [&str; 7] = ["js", "mjs", "cjs", "ts", "mts", "json", "py"];
const MAX_COPIED: u64 = 16 << 20;

const HOST: &str = include_str!("host/host.mjs");
const HOST_ERRORS: &str = include_str!("host/errors.cjs");
const TYPED_HOST: &str = include_str!("host/typed.mjs");
const ONCE_PRELOAD: &str = include_str!("host/once.cjs");
const EXIT_PRELOAD: &str = include_str!("host/exit.cjs");
const EGRESS_PRELOAD: &str = include_str!("host/egress.cjs");
const OFFLINE_PRELOAD: &str = include_str!("host/offline.cjs");
const REUSE_HOST: &str = include_str!("host/reuse.cjs");

/// Why code cannot be written to disk.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// Writing failed.
    #[error("its code cannot be written to {path}: {source}")]
    Write {
        /// The path of the entry file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The text does not match the digest in the plan.
    #[error("its code is not what its digest {0} names")]
    Digest(String),
    /// The file name in the plan is not a plain name, so it could lead out of the folder.
    #[error("its file name is not a plain name")]
    FileName,
}

/// The private folder of this process. It is removed with all its content when this value and every [`InstalledCode`]
/// in it are dropped.
#[derive(Debug)]
pub struct CodeFolder {
    private: PrivateFolder,
    next: AtomicU64,
}

/// The code of one plugin, ready to run. Its folder is removed on drop.
#[derive(Debug)]
pub struct InstalledCode {
    folder: PathBuf,
    entry: PathBuf,
    /// Folders outside the code's own from which the code can import.
    origins: Vec<PathBuf>,
    parent: Arc<CodeFolder>,
}

impl CodeFolder {
    /// Creates the folder and writes the host scripts into it.
    ///
    /// # Errors
    /// If the folder cannot be created or written to.
    pub fn create() -> io::Result<Self> {
        let folder = Self { private: PrivateFolder::create()?, next: AtomicU64::new(0) };
        fs::write(folder.host(), HOST)?;
        fs::write(folder.host_errors(), HOST_ERRORS)?;
        fs::write(folder.typed_host(), TYPED_HOST)?;
        fs::write(folder.once_preload(), ONCE_PRELOAD)?;
        fs::write(folder.exit_preload(), EXIT_PRELOAD)?;
        fs::write(folder.egress_preload(), EGRESS_PRELOAD)?;
        fs::write(folder.offline_preload(), OFFLINE_PRELOAD)?;
        fs::write(folder.reuse_host(), REUSE_HOST)?;
        Ok(folder)
    }

    /// Removes the folder with all its content now. A gateway that is shutting down calls this instead of waiting until
    /// the folder is no longer referenced.
    pub fn remove(&self) {
        self.private.remove();
    }

    /// The script that implements the worker's side of the Module protocol.
    pub fn host(&self) -> PathBuf {
        self.private.path().join("host.mjs")
    }

    /// The part of the host scripts and preloads about errors.
    pub fn host_errors(&self) -> PathBuf {
        self.private.path().join("errors.cjs")
    }

    /// The part of [`Self::host`] that serves plugins which are not middleware.
    pub fn typed_host(&self) -> PathBuf {
        self.private.path().join("typed.mjs")
    }

    /// The script that runs a Once script repeatedly in one process.
    pub fn reuse_host(&self) -> PathBuf {
        self.private.path().join("reuse.cjs")
    }

    /// The preload for scripts that run without a host script.
    pub fn once_preload(&self) -> PathBuf {
        self.private.path().join("once.cjs")
    }

    /// The preload for Once scripts that exit after one call; it announces the exit code.
    pub fn exit_preload(&self) -> PathBuf {
        self.private.path().join("exit.cjs")
    }

    /// The preload for plugins that list `egress`; it makes their connections through the gateway.
    pub fn egress_preload(&self) -> PathBuf {
        self.private.path().join("egress.cjs")
    }

    /// The preload for plugins that list no `egress`; it explains why their connections fail.
    pub fn offline_preload(&self) -> PathBuf {
        self.private.path().join("offline.cjs")
    }

    /// The folder that holds the host scripts and all installed code.
    pub fn path(&self) -> &Path {
        self.private.path()
    }

    /// Writes `text` as the entry file of `plan`, beside copies of or links to the other files of its original folder.
    ///
    /// # Errors
    /// If the text does not match the plan's digest, the file name is not a plain name, or writing fails.
    pub fn write(self: &Arc<Self>, plan: &PluginPlan, text: &str) -> Result<InstalledCode, CodeError> {
        if sha256_hex(text.as_bytes()) != plan.digest {
            return Err(CodeError::Digest(plan.digest.clone()));
        }
        if Path::new(&plan.file_name).file_name() != Some(plan.file_name.as_ref()) {
            return Err(CodeError::FileName);
        }
        let short = plan.digest.get(..12).unwrap_or_default();
        let folder = self.private.path().join(format!("{short}-{}", self.next.fetch_add(1, Ordering::Relaxed)));
        let entry = folder.join(&plan.file_name);
        let mut code = InstalledCode { folder, entry, origins: Vec::new(), parent: Arc::clone(self) };
        code.fill(text, plan.folder.as_deref())
            .map_err(|source| CodeError::Write { path: code.entry.clone(), source })?;
        Ok(code)
    }
}

impl InstalledCode {
    /// The file that Node.js runs.
    pub fn entry(&self) -> &Path {
        &self.entry
    }

    /// The folder of the entry file.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All paths that a worker reads: the code's own folder, the host scripts, the original folder, and the packages.
    pub fn readable(&self) -> Vec<PathBuf> {
        let parent = &self.parent;
        let preloads =
            [parent.once_preload(), parent.exit_preload(), parent.egress_preload(), parent.offline_preload()];
        let hosts = [parent.host(), parent.host_errors(), parent.typed_host(), parent.reuse_host()];
        self.own_folders().chain(hosts).chain(preloads).collect()
    }

    /// The folder of the code, its original folder, and the packages.
    pub fn own_folders(&self) -> impl Iterator<Item = PathBuf> {
        [self.folder.clone()].into_iter().chain(self.origins.iter().cloned())
    }

    /// The folder of the host scripts and preloads.
    pub fn parent(&self) -> &CodeFolder {
        &self.parent
    }

    fn fill(&mut self, text: &str, origin: Option<&Path>) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.folder)?;
        let Some(origin) = origin else { return fs::write(&self.entry, text) };
        match program_digest(text) {
            Some(digest) => {
                copy_program(&origin.join(self.entry.file_name().unwrap_or_default()), &self.entry, digest)?
            }
            None => fs::write(&self.entry, text)?,
        }
        let (origin, mut room) = (fs::canonicalize(origin)?, MAX_COPIED);
        for sibling in fs::read_dir(&origin)?.take(MAX_SIBLINGS) {
            let name = sibling?.file_name();
            if Some(name.as_os_str()) == self.entry.file_name() {
                continue;
            }
            let (from, to) = (origin.join(&name), self.folder.join(&name));
            match copied(&from, &to, room) {
                Some(bytes) => room -= bytes,
                None => symlink(&from, &to)?,
            }
        }
        self.link_packages(&origin)?;
        self.origins.push(origin);
        Ok(())
    }

    /// Links the packages that Node.js would find for code in `origin`: the nearest folder `node_modules` in `origin`
    /// or above it. A `node_modules` in `origin` itself has already been linked, along with the other entries of
    /// `origin`.
    fn link_packages(&mut self, origin: &Path) -> io::Result<()> {
        const PACKAGES: &str = "node_modules";
        let packages = origin.ancestors().map(|folder| folder.join(PACKAGES)).find(|packages| packages.is_dir());
        match packages {
            Some(packages) if packages.parent() != Some(origin) => {
                symlink(&packages, self.folder.join(PACKAGES))?;
                self.origins.push(packages);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Copies a program, which must be the one with this digest.
fn copy_program(from: &Path, to: &Path, digest: &str) -> io::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).mode(0o700).open(to)?;
    let mut written = DigestWriter::new(written);
    io::copy(&mut fs::File::open(from)?, &mut written)?;
    match written.finish() == digest {
        true => Ok(()),
        false => Err(io::Error::other("its file is being replaced, and no longer has the digest that was accepted")),
    }
}

/// Copies a file if code can import it and it fits in `room`. Returns its size, or `None` if it was not copied.
fn copied(from: &Path, to: &Path, room: u64) -> Option<u64> {
    let is_code = from.extension().is_some_and(|ending| IMPORTED.iter().any(|one| ending == *one));
    let bytes = fs::metadata(from).ok().filter(|found| is_code && found.is_file() && found.len() <= room)?.len();
    let read = fs::read(from).ok().filter(|read| read.len() as u64 <= bytes)?;
    fs::write(to, read).ok().map(|()| bytes)
}

impl Drop for InstalledCode {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_code_may_import_are_copied_where_there_is_room() {
        let folder = PrivateFolder::create().unwrap();
        let to = folder.path().join("copy");
        for (name, room, expected) in
            [("less.js", 5, Some(4)), ("just.mjs", 4, Some(4)), ("more.json", 3, None), ("other.node", 5, None)]
        {
            let from = folder.path().join(name);
            fs::write(&from, "code").unwrap();
            assert_eq!((copied(&from, &to, room), to.exists()), (expected, expected.is_some()), "{name}");
            let _ = fs::remove_file(&to);
        }
        assert_eq!(copied(&folder.path().join("none.js"), &to, 5), None);
    }
}
