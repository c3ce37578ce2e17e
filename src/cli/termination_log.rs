//! The file in which Kubernetes keeps why a container ended, for the status of its pod.
//!
//! The operator tells what is in it in the status of an MCPGateway. So it has the error with which the process ends, and
//! no line of the log: the log also has what plugins, servers and clients say, and more people may read a status.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Kubernetes' default of `terminationMessagePath`.
const FILE: &str = "/dev/termination-log";
/// The subcommands that are a container's program. Another one may run beside it (`kubectl exec`), and its error is not
/// why the container ends.
const PROGRAMS: [&str; 3] = ["run", "operator", "gateway"];

/// Writes the error with which the subcommand ends, if the subcommand is a container's program and the file exists.
/// Failures are ignored: the error was printed, too.
pub fn write(subcommand: Option<&OsStr>, error: &str) {
    if is_program(subcommand) {
        let _ = write_to(Path::new(FILE), error);
    }
}

fn is_program(subcommand: Option<&OsStr>) -> bool {
    subcommand.and_then(OsStr::to_str).is_some_and(|word| PROGRAMS.contains(&word))
}

fn write_to(file: &Path, error: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(file)?.write_all(error.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_takes_the_place_of_what_the_file_had() {
        let file = std::env::temp_dir().join(format!("hawsepipe-termination-log-{}", std::process::id()));
        assert!(write_to(&file, "--admin: in use").is_err());
        assert!(!file.exists(), "outside of a pod it is not made");
        std::fs::write(&file, "something longer than that").unwrap();
        write_to(&file, "--admin: in use").unwrap();
        let written = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(written, "--admin: in use");
    }

    #[test]
    fn a_command_beside_the_containers_program_does_not_write() {
        for (word, is) in [(Some("gateway"), true), (Some("operator"), true), (Some("status"), false), (None, false)] {
            assert_eq!(is_program(word.map(OsStr::new)), is, "{word:?}");
        }
    }
}
