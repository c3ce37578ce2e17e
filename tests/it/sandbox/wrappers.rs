//! The same for programs of other languages: each attempt as a wrapper, where it fails, and the same code by itself, where it
//! succeeds.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hawsepipe::domain::plan::{InterpreterPlan, WrapperPlan, program_text};
use hawsepipe::domain::ports::{LinkedPlugin, RunPlugin};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateway::harness::Folder;
use crate::node::{Code, Rig, once};

/// The targets of the attempts, besides this machine.
struct Targets {
    folder: Folder,
    process: Child,
    tcp: TcpListener,
    _unix: UnixListener,
}

impl Targets {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("secret", "c4nary");
        let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
        let process = Command::new("sleep").arg("600").env("SECRET", "c4nary").spawn().unwrap();
        Self { folder, process, tcp: TcpListener::bind("127.0.0.1:0").unwrap(), _unix: unix }
    }

    /// The targets as arguments of an attempt.
    fn input(&self, attempt: &str) -> String {
        let port = self.tcp.local_addr().unwrap().port();
        let content = json!({"attempt": attempt, "folder": self.folder.path(), "pid": self.process.id(), "port": port});
        json!({"rawContent": content.to_string()}).to_string() + "\n"
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the attempt of its input, and answers `done` or the name of its error.
const PYTHON: &str = r#"
import ctypes, json, mmap, multiprocessing, os, resource, signal, socket, subprocess, sys

given = json.loads(json.loads(sys.stdin.readline())["rawContent"])
folder, pid, port = given["folder"], given["pid"], given["port"]
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)

def connect(family, address):
    with socket.socket(family) as it:
        it.connect(address)

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def execute():
    os.execv("/bin/sh", ["sh", "-c", "echo '{\"text\":\"done\",\"continue\":true}'"])

attempts = {
    "reads a file of others": lambda: open(f"{folder}/secret").read(),
    "reads /etc/passwd": lambda: open("/etc/passwd").read(),
    "lists a folder": lambda: os.listdir("/etc"),
    "reads the environment of a process": lambda: open(f"/proc/{pid}/environ").read(),
    "reads the command line of a process": lambda: open(f"/proc/{pid}/cmdline").read(),
    "writes a file": lambda: open(f"{folder}/new", "w").write("x"),
    "changes a file": lambda: open(f"{folder}/secret", "a").write("x"),
    "changes a mode": lambda: os.chmod(f"{folder}/secret", 0o600),
    "changes times": lambda: os.utime(f"{folder}/secret"),
    "makes a folder": lambda: os.mkdir(f"{folder}/made"),
    "makes a link": lambda: os.symlink("/etc/passwd", f"{folder}/link"),
    "connects over TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
    "connects to a socket": lambda: connect(socket.AF_UNIX, f"{folder}/socket"),
    "sends a datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
    "listens": lambda: socket.create_server(("127.0.0.1", 0)),
    "forks": fork,
    "starts a program": lambda: subprocess.run(["/bin/true"], check=True),
    "starts a Python": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "becomes a program": execute,
    "signals a process": lambda: os.kill(pid, 0),
    "traces a process": lambda: call("ptrace", 16, pid, 0, 0),
    "shares memory": lambda: os.memfd_create("x"),
    "maps more memory than it may": lambda: bytearray(700 << 20),
    "lowers another process's limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)),
}
try:
    attempts[given["attempt"]]()
    outcome = "done"
except (OSError, MemoryError, subprocess.SubprocessError) as error:
    outcome = type(error).__name__
print(json.dumps({"text": outcome, "continue": True}))
"#;

/// The same in Go, as a program that is linked statically.
const GO: &str = r#"
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

type given struct {
	Attempt string
	Folder  string
	Pid     int
	Port    int
}

func connect(network, address string) error {
	connection, err := net.Dial(network, address)
	if err == nil {
		connection.Close()
	}
	return err
}

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func main() {
	line, _ := bufio.NewReader(os.Stdin).ReadBytes('\n')
	var input struct{ RawContent string }
	var it given
	json.Unmarshal(line, &input)
	json.Unmarshal([]byte(input.RawContent), &it)
	attempts := map[string]func() error{
		"reads a file of others": func() error { return read(it.Folder + "/secret") },
		"reads /etc/passwd":      func() error { return read("/etc/passwd") },
		"reads the environment of a process": func() error {
			return read("/proc/" + strconv.Itoa(it.Pid) + "/environ")
		},
		"writes a file":       func() error { return os.WriteFile(it.Folder+"/new", nil, 0o600) },
		"changes a mode":      func() error { return os.Chmod(it.Folder+"/secret", 0o600) },
		"removes a file":      func() error { return os.Remove(it.Folder + "/secret") },
		"connects over TCP":   func() error { return connect("tcp", "127.0.0.1:"+strconv.Itoa(it.Port)) },
		"connects to a socket": func() error { return connect("unix", it.Folder+"/socket") },
		"starts a program":    func() error { return exec.Command("/bin/true").Run() },
		"becomes a program": func() error {
			return syscall.Exec("/bin/sh", []string{"sh", "-c", `echo '{"text":"done","continue":true}'`}, nil)
		},
		"signals a process": func() error { return syscall.Kill(it.Pid, 0) },
	}
	outcome := "done"
	if err := attempts[it.Attempt](); err != nil {
		outcome = "failed"
	}
	answer, _ := json.Marshal(map[string]any{"text": outcome, "continue": true})
	fmt.Println(string(answer))
}
"#;

/// The names of the attempts in a program's text.
fn attempts(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix('"')?.split_once("\": ").or(line.strip_prefix('"')?.split_once("\":")));
    lines.map(|(name, _)| name).filter(|name| name.contains(' ')).collect()
}

/// Makes every attempt in the sandbox and without it.
async fn try_all(names: &[&str], plugin: &Arc<LinkedPlugin>, by_itself: impl Fn() -> Command) {
    let rig = Rig::with(&[plugin]).await;
    let mut wrong = Vec::new();
    for name in names {
        let targets = Targets::new();
        let input = targets.input(name);
        let content: Value = serde_json::from_str(&input).unwrap();
        let ran = rig.run_for(plugin, content["rawContent"].as_str().unwrap(), 10_000).await;
        let met = ran.output.map_or_else(|failure| failure.reason.to_string(), |output| output.text);
        if met == "done" {
            wrong.push(format!("{name}: succeeds in the sandbox"));
        }
        let got = printed(by_itself(), &input);
        if !got.contains("done") {
            wrong.push(format!("{name}: meets {got} without a sandbox too, so it shows nothing"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names.len() > 10, "{names:?}");
    rig.workers.shutdown().await;
}

fn printed(mut command: Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

fn wrapper(code: Code, wrapper: WrapperPlan) -> Arc<LinkedPlugin> {
    let mut plugin = (*code.link()).clone();
    plugin.plan.wrapper = Some(wrapper);
    Arc::new(plugin)
}

#[tokio::test]
async fn programs_in_python_do_not_get_out() {
    let interpreter = InterpreterPlan { name: "python3".into(), path: "python3".into(), read_paths: Vec::new() };
    let code = Code { file_name: "attempt", ..once(PYTHON) };
    let plugin = wrapper(code, WrapperPlan { interpreter: Some(interpreter), args: Vec::new() });
    let by_itself = || {
        let mut command = Command::new("python3");
        command.args(["-c", PYTHON]);
        command
    };
    try_all(&attempts(PYTHON), &plugin, by_itself).await;
}

#[tokio::test]
async fn programs_that_are_linked_statically_do_not_get_out() {
    let folder = Folder::new();
    folder.write("main.go", GO);
    let program = folder.path().join("attempt");
    built(&folder.path().join("main.go"), &program);
    let digest: String = Sha256::digest(fs::read(&program).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    let code = Code { file_name: "attempt", folder: Some(folder.path().to_owned()), ..once(&program_text(&digest)) };
    let plugin = wrapper(code, WrapperPlan { interpreter: None, args: Vec::new() });
    try_all(&attempts(GO), &plugin, || Command::new(&program)).await;
}

/// Builds a program in Go.
fn built(source: &Path, program: &PathBuf) {
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(program).arg(source).env("CGO_ENABLED", "0");
    assert!(build.status().unwrap().success());
}
