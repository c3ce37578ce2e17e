//! The audit trail and the history on a disk that is full, and after a write that fails: the nth one, for several n;
//! and a file that is damaged.

use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::audited::{audited, call, of_kind, reached, rows, started, verified};
use super::harness::{Folder, Gateway, run};
use super::history::{metric, sqlite};
use super::parts::{raw_stdio, tools_of, until};
use crate::fixtures::program;

const DROPPED: &str = "hawsepipe_history_dropped_total{store=\"audit\"}";
const STORED: &str = "hawsepipe_audit_rows_total{store=\"database\"}";
const WAITING: &str = "hawsepipe_history_queue_length ";

/// What happened to the calls of a test.
struct Calls<'a> {
    gateway: &'a Gateway,
    folder: &'a Folder,
    answered: usize,
}

impl Calls<'_> {
    /// Whether a call is answered; else it is refused, or its answer withheld, for lack of a row.
    async fn is_answered(&mut self) -> bool {
        let result = call(self.gateway, json!({"a": 1})).await;
        if result["isError"] == Value::Null {
            assert_eq!(result["content"][0]["text"], "{\"a\":1}", "{result}");
            self.answered += 1;
            return true;
        }
        assert_eq!(result["_meta"]["hawsepipe.dev/refused"]["reason"], "AuditUnavailable", "{result}");
        false
    }

    /// Calls until the lack of room shows, as the mode says.
    async fn until_full(&mut self, mode: &str) {
        for _ in 0..200 {
            let before = reached(self.folder);
            let answered = self.is_answered().await;
            match mode {
                // Refused before it was sent. A call whose last row does not fit was sent.
                "Required" if !answered && reached(self.folder) == before => return,
                "Required" => {}
                _ => {
                    assert!(answered, "BestEffort serves");
                    if metric(self.gateway, DROPPED).await > 0.0 {
                        return;
                    }
                }
            }
        }
        panic!("200 calls, and the store is not full");
    }

    /// Calls until rows are stored again.
    async fn until_back(&mut self) {
        until("calls are answered", async || self.is_answered().await).await;
        let stored = metric(self.gateway, STORED).await;
        until("audit rows are stored", async || {
            self.is_answered().await;
            metric(self.gateway, STORED).await > stored
        })
        .await;
        until("the history is written", async || metric(self.gateway, WAITING).await == 0.0).await;
    }
}

/// Each call that the server got has a row of its beginning, and each answer one of its end, if rows are required. The chain
/// is whole in any case, and so is the history, whose rows waited.
fn check(mode: &str, store: &str, answered: usize, folder: &Folder) {
    let (whole, said) = verified(store, &[]);
    assert!(whole, "{mode}: {said}");
    let rows = rows(store);
    let (begun, ended) = (of_kind(&rows, "begin").len(), of_kind(&rows, "end").len());
    let sent = reached(folder);
    if mode == "Required" {
        assert!(begun >= sent && ended >= answered, "{begun} >= {sent}, {ended} >= {answered}");
    } else {
        // Either row of a call can be the one that was not written.
        assert!(sent == answered && begun + ended < 2 * answered, "{begun} + {ended} < 2 * {answered}, {sent}");
    }
    let recorded = super::history::sqlite(store, &["SELECT count(*) FROM calls WHERE outcome = 'ok'"]);
    assert_eq!(recorded, answered.to_string(), "{mode}");
}

/// Limits the size of the files that a gateway writes.
fn limit(gateway: &Gateway, most: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(gateway.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: most, maximum: None }).unwrap();
}

async fn fails_after(bytes: u64, mode: &str) {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let gateway = started(&folder, mode, store).await;
    let mut calls = Calls { gateway: &gateway, folder: &folder, answered: 0 };
    assert!(calls.is_answered().await);
    let size = std::fs::metadata(format!("{store}-wal")).unwrap().len();
    limit(&gateway, Some(size + bytes));
    calls.until_full(mode).await;
    limit(&gateway, None);
    calls.until_back().await;
    let answered = calls.answered;
    assert!(gateway.end().1);
    check(mode, store, answered, &folder);
}

#[tokio::test]
async fn an_nth_write_that_fails_refuses_calls_if_rows_are_required() {
    for bytes in [1, 9_000, 50_000] {
        fails_after(bytes, "Required").await;
    }
}

#[tokio::test]
async fn an_nth_write_that_fails_is_counted_if_rows_are_not_required() {
    for bytes in [1, 30_000] {
        fails_after(bytes, "BestEffort").await;
    }
}

/// A gateway whose store is on a small file system of its own, and the shell that runs in it.
struct SmallDisk {
    gateway: Gateway,
    shell: ChildStdin,
}

/// Mounts the file system, obeys the lines of its input, and becomes the gateway.
const SCRIPT: &str = "mount -t tmpfs -o size=1m none \"$DISK\" && exec 3<&0 || exit 9
(while read -r line <&3; do eval \"$line\"; done) &
exec \"$@\" 3<&-";
const NAMESPACE: [&str; 4] = ["--user", "--map-root-user", "--mount", "sh"];

impl SmallDisk {
    fn start(folder: &Folder, disk: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(NAMESPACE).args(["-c", SCRIPT, "sh"]).arg(program()).stdin(Stdio::piped());
        command.env_remove("HAWSEPIPE_LOG");
        let store = format!("{disk}/audit.db");
        let arguments = ["--listen", "127.0.0.1:0", "--store", &store];
        let mut gateway = Gateway::of_command(command, folder, &arguments, &[("DISK", disk)]);
        Self { shell: gateway.stdin(), gateway }
    }

    /// Runs a command where the file system is, and waits for its end.
    async fn run(shell: &mut ChildStdin, folder: &Folder, command: &str) {
        let done = folder.path().with_extension("done");
        writeln!(shell, "{command}; touch {}", done.display()).unwrap();
        until(command, async || done.exists()).await;
        std::fs::remove_file(done).unwrap();
    }
}

/// Whether this machine lets its users mount file systems of their own.
fn mounts(disk: &Path) -> bool {
    let mut command = Command::new("unshare");
    command.args(NAMESPACE).args(["-c", "mount -t tmpfs none \"$DISK\""]).env("DISK", disk);
    let mounts = command.output().is_ok_and(|output| output.status.success());
    if !mounts {
        eprintln!("left out: this machine does not let its users mount a file system");
    }
    mounts
}

#[tokio::test]
async fn a_full_disk_does_what_the_mode_says_and_is_used_again_when_it_has_room() {
    for mode in ["Required", "BestEffort"] {
        let folder = Folder::new();
        folder.write("manifests.yaml", &audited(&folder, mode));
        let (disk, copy) = (folder.path().join("disk"), folder.path().join("copy"));
        std::fs::create_dir(&disk).unwrap();
        std::fs::create_dir(&copy).unwrap();
        if !mounts(&disk) {
            return;
        }
        let SmallDisk { gateway, mut shell } = SmallDisk::start(&folder, disk.to_str().unwrap());
        tools_of(&gateway, &["raw"]).await;
        let mut calls = Calls { gateway: &gateway, folder: &folder, answered: 0 };
        assert!(calls.is_answered().await);
        SmallDisk::run(&mut shell, &folder, "head -c 2m /dev/zero > $DISK/other 2>/dev/null").await;
        calls.until_full(mode).await;
        if mode == "Required" {
            gateway.logged(|line| {
                let message = line["message"].as_str().unwrap_or_default();
                message.starts_with("the audit trail is not written") && message.contains("disk is full")
            });
        }
        SmallDisk::run(&mut shell, &folder, "rm $DISK/other").await;
        calls.until_back().await;
        let answered = calls.answered;
        assert!(gateway.end().1);
        SmallDisk::run(&mut shell, &folder, &format!("cp $DISK/audit.db* {}", copy.display())).await;
        check(mode, copy.join("audit.db").to_str().unwrap(), answered, &folder);
    }
}

#[test]
fn a_damaged_file_is_no_store() {
    let folder = Folder::with(&raw_stdio("raw", Path::new("/dev/null")));
    let file = folder.path().join("history.db").to_str().unwrap().to_owned();
    sqlite(
        &file,
        &["CREATE TABLE t (a)", "INSERT INTO t VALUES (zeroblob(100000))", "CREATE INDEX i ON t (length(a))"],
    );
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4096..8192].fill(0x5a);
    std::fs::write(&file, bytes).unwrap();
    let output = run(&["run", "-f", folder.path().to_str().unwrap(), "--store", &file, "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("the file is damaged (") && said.contains("Move it away"),
        "{said}"
    );
}
