//! Starts the processes of servers. The gateway runs its own program as `hawsepipe stdio-server`. That process asks the
//! kernel to kill it when the gateway ends, and then becomes the server. So a gateway that is killed leaves no server
//! behind, and no unsafe code is needed. The processes that a server started are left; their environment has a mark
//! (`gateway_mark.rs`). On systems other than Linux, the server is started directly.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use rustix::fs::{Access, access};
use rustix::process::{Pid, getpid, getppid};

use super::gateway_mark::GatewayMark;

const SUBCOMMAND: &str = "stdio-server";

/// Starts the processes of servers by running this program, which then becomes the server.
#[derive(Clone, Debug)]
pub struct ServerLauncher {
    /// `None` starts servers directly.
    program: Option<PathBuf>,
    /// The mark of the servers and of the processes that they start.
    mark: Option<GatewayMark>,
}

impl ServerLauncher {
    /// Returns a launcher that runs the program of this process, even if the program's file has been replaced in the
    /// meantime. Where there is no `/proc`, servers are started directly.
    pub fn current() -> Self {
        let program = PathBuf::from("/proc/self/exe");
        Self { program: program.exists().then_some(program), mark: None }
    }

    /// Returns a launcher that runs the program at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { program: Some(path.into()), mark: None }
    }

    /// Sets the mark of the servers.
    pub fn with_mark(self, mark: Option<GatewayMark>) -> Self {
        Self { mark, ..self }
    }

    /// Returns the variable that the environment of a server must contain, if there is one.
    pub fn variable(&self) -> Option<(&str, &str)> {
        self.mark.as_ref().map(GatewayMark::variable)
    }

    /// Returns a command that runs `program` with `name` as its argument 0.
    pub fn command(&self, program: &Path, name: &str) -> Command {
        let Some(own) = self.program.as_ref().filter(|_| cfg!(target_os = "linux")) else {
            let mut command = Command::new(program);
            command.arg0(name);
            return command;
        };
        let mut command = Command::new(own);
        command.arg(SUBCOMMAND).arg(Pid::as_raw(Some(getpid())).to_string()).arg(name).arg(program);
        command
    }
}

/// `hawsepipe stdio-server PARENT NAME PROGRAM [ARGUMENT...]`: replaces this process with the program. On Linux, the
/// kernel kills the program when the process with the id PARENT ends. On failure, prints the reason to standard error
/// and exits with code 126.
pub fn server_main(arguments: impl Iterator<Item = OsString>) -> ! {
    let error = become_server(arguments).unwrap_or_else(|error| error);
    eprintln!("Error: hawsepipe {SUBCOMMAND}: {error}");
    exit(126)
}

/// Replaces this process with the program. Returns only if that fails.
fn become_server(mut arguments: impl Iterator<Item = OsString>) -> io::Result<io::Error> {
    let (Some(parent), Some(name), Some(program)) = (arguments.next(), arguments.next(), arguments.next()) else {
        let usage = format!("usage: {SUBCOMMAND} PARENT NAME PROGRAM [ARGUMENT...]");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, usage));
    };
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended before the death signal was set.
    if parent.to_str() != Some(&Pid::as_raw(getppid()).to_string()) {
        return Err(io::Error::other("the gateway has ended"));
    }
    let error = Command::new(&program).arg0(name).args(arguments).exec();
    Ok(explained(&program, &error))
}

/// Returns the error for a program that was found and cannot be run, with its probable cause.
fn explained(program: &OsStr, error: &io::Error) -> io::Error {
    let cause = if error.kind() == io::ErrorKind::NotFound {
        ": the file is there, but not the interpreter or the loader that it names"
    } else if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) {
        ": it is no program for this machine, and no script whose first line names an interpreter"
    } else {
        ""
    };
    io::Error::new(error.kind(), format!("cannot run {}: {error}{cause}", program.display()))
}

/// Returns the file that `command` names. A command with a slash is a path, relative to `cwd` unless it is absolute.
/// Any other command is a name in one of the folders of `path`.
pub fn find(command: &str, cwd: &Path, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if !cwd.is_dir() {
        let error = "the folder that it is to start in (cwd) is not there";
        return Err(io::Error::new(io::ErrorKind::NotADirectory, error));
    }
    let runs = |file: &Path| -> io::Result<()> {
        if file.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(access(file, Access::EXEC_OK)?)
    };
    if command.contains('/') {
        let file = cwd.join(command);
        return runs(&file).map(|()| file).map_err(|error| not_one(command, error));
    }
    let mut denied = None;
    for folder in std::env::split_paths(path.unwrap_or_default()) {
        let file = cwd.join(folder).join(command);
        match runs(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(error),
            Err(_) => {}
        }
    }
    let missing = || not_one(command, io::Error::new(io::ErrorKind::NotFound, "it is in no folder of PATH"));
    Err(denied.unwrap_or_else(missing))
}

/// Replaces the error for a command that was not found if it is a whole command line.
fn not_one(command: &str, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound || !command.contains(char::is_whitespace) {
        return error;
    }
    let words = "no program has this name with the spaces in it: give its arguments apart from it (args)";
    io::Error::new(io::ErrorKind::NotFound, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_by_their_own() {
        let (root, path) = (Path::new("/"), Some(OsStr::new("/nowhere:/bin")));
        assert_eq!(find("sh", root, path).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("bin/sh", root, None).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("no-such-program", root, path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find("/bin/nothing", root, path).unwrap_err().kind(), io::ErrorKind::NotFound);
        for line in ["sh -c true", "npx -y @scope/server"] {
            assert!(find(line, root, path).unwrap_err().to_string().contains("apart from it (args)"), "{line}");
        }
        assert_eq!(find("sh", Path::new("/nowhere"), path).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(find("/bin", root, path).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
