//! A mark in the environment of servers, by which the next gateway finds the processes that a killed gateway left. The
//! kernel ends the server itself with its gateway (`launcher.rs`), but not the processes that the server started.

use std::path::Path;

use super::process_tree::{Descendants, ProcessIdentity, may_run};

/// The variable with the mark. All processes that a server starts inherit it.
const VARIABLE: &str = "HAWSEPIPE_STARTED_BY";

/// The mark of the processes of one gateway process.
#[derive(Clone, Debug)]
pub struct GatewayMark {
    /// The beginning of the marks of all gateways with this state folder and in this PID namespace.
    folder: String,
    /// The whole mark: `folder`, and the id and the start time of the gateway process.
    value: String,
}

impl GatewayMark {
    /// Creates the mark of this process. `state` identifies its state folder. Returns `None` if `/proc` does not show
    /// this process.
    pub fn new(state: &str) -> Option<Self> {
        let own = i32::try_from(std::process::id()).ok()?;
        // A process id means another process in another PID namespace.
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        if std::fs::read_link("/proc/self").ok()? != Path::new(&own.to_string()) {
            return None;
        }
        let started = ProcessIdentity::of(own)?.started;
        let folder = format!("{state}/{}/", namespace.display());
        Some(Self { value: format!("{folder}{own}/{started}"), folder })
    }

    /// The name and the value of the variable.
    pub fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.value)
    }

    /// Kills the processes that gateways with this state folder started, if their gateway has ended. Returns their
    /// number. This process and the processes that it descends from stay.
    pub async fn end_left_behind(&self) -> usize {
        let folder = self.folder.clone();
        let find = move || Descendants::started_with(|entry| is_left(entry, &folder)).without_own_ancestors();
        Descendants::kill_all(find).await
    }
}

/// Whether an entry of an environment is the mark of a gateway with this folder that has ended.
fn is_left(entry: &[u8], folder: &str) -> bool {
    let gateway = || {
        let value = std::str::from_utf8(entry).ok()?.strip_prefix(VARIABLE)?.strip_prefix('=')?;
        let (pid, started) = value.strip_prefix(folder)?.split_once('/')?;
        Some((pid.parse::<i32>().ok().filter(|pid| *pid > 0)?, started.parse::<u64>().ok()?))
    };
    gateway().is_some_and(|(pid, started)| !may_run(pid, started))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_ended_gateways_with_the_same_folder_count() {
        let mark = GatewayMark::new("a").unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let zombie = i32::try_from(child.id()).unwrap();
        let started = ProcessIdentity::of(zombie).unwrap().started;
        let own = std::process::id();
        child.wait().unwrap();
        for (value, left) in [
            (mark.value.clone(), false),
            (format!("{}{own}/1", mark.folder), true),
            (format!("{}{zombie}/{started}", mark.folder), true),
            (format!("b{}{own}/1", &mark.folder[1..]), false),
            (format!("a/pid:[1]/{own}/1"), false),
            (format!("{}0/1", mark.folder), false),
            (format!("{}{own}", mark.folder), false),
        ] {
            let is_left = is_left(format!("{VARIABLE}={value}").as_bytes(), &mark.folder);
            assert_eq!(is_left, left, "{value}");
        }
        assert!(!is_left(format!("OTHER={}{own}/1", mark.folder).as_bytes(), &mark.folder));
    }
}
