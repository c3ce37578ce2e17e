//! Calls that JavaScript cannot make, but native code could: a Python script in the place of Node.js, in the same sandbox,
//! asks the kernel by their numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hawsepipe::node::Launcher;
use hawsepipe::node::launcher::Stdin;
use hawsepipe::node::sandbox::Confinement;
use serde_json::json;

use super::as_nobody;
use super::place::Victim;
use crate::fixtures::{checkout, program};

/// What is tried: a name, the error that it meets, and how. `victim` is a process of the same user.
const CALLS: &[(&str, &str, &str)] = &[
    ("TCP socket", "EPERM", "call('socket', 2, 1, 0)"),
    ("UDP socket", "EPERM", "call('socket', 2, 2, 0)"),
    ("TCP socket of IPv6", "EPERM", "call('socket', 10, 1, 0)"),
    ("Unix socket", "EPERM", "call('socket', 1, 1, 0)"),
    ("netlink socket", "EPERM", "call('socket', 16, 3, 0)"),
    ("pair of sockets", "EPERM", "call('socketpair', 1, 1, 0, buffer)"),
    ("process", "EPERM", "os.fork() or os._exit(0)"),
    ("process by clone3", "ENOSYS", "call('clone3', struct('QQQQQQQQ', 0, 0, 0, 0, 17, 0, 0, 0), 64) or os._exit(0)"),
    ("descriptor of a process", "EPERM", "call('pidfd_open', victim, 0)"),
    ("signal", "EPERM", "call('kill', victim, 0)"),
    ("signal to a thread", "EPERM", "call('tgkill', victim, victim, 0)"),
    ("signal to a thread, old form", "EPERM", "call('tkill', victim, 0)"),
    ("limits of a process", "EPERM", "call('prlimit64', victim, 7, 0, buffer)"),
    ("processors of a process", "EPERM", "call('sched_setaffinity', victim, 8, struct('Q', 1))"),
    ("being traced", "EPERM", "call('ptrace', 0, 0, 0, 0)"),
    ("memory of a process", "EPERM", "call('process_vm_readv', os.getpid(), 0, 0, 0, 0, 0)"),
    ("owner of a pipe", "EPERM", "call('fcntl', 0, 8, victim)"),
    ("signals of a pipe", "EPERM", "call('ioctl', 0, 0x5452, struct('i', 1))"),
    ("file for writing", "EPERM", "os.open('/dev/null', os.O_WRONLY)"),
    ("file for writing, new form", "ENOSYS", "call('openat2', -100, b'/dev/null\\0', struct('QQQ', 1, 0, 0), 24)"),
    ("memory as a file", "EPERM", "call('memfd_create', b'x\\0', 0)"),
    ("shared memory", "EPERM", "call('shmget', 0, 4096, 0o600)"),
    ("messages", "EPERM", "call('msgget', 0, 0o600)"),
    ("watch on files", "EPERM", "call('inotify_init1', 0)"),
    ("process group", "EPERM", "call('setpgid', 0, 0)"),
    ("another user", "EPERM", "call('setresuid', -1, -1, -1)"),
    ("another personality", "EPERM", "call('personality', 0xffffffff)"),
    ("becoming readable", "EPERM", "call('prctl', 4, 1, 0, 0, 0)"),
    ("ring of calls", "ENOSYS", "call('io_uring_setup', 4, buffer)"),
    ("faults in user space", "EPERM", "call('userfaultfd', 1)"),
    ("namespace of users", "EPERM", "call('unshare', 0x10000000)"),
    ("key ring", "EPERM", "call('keyctl', 0, -3, 0)"),
    ("another program", "EACCES", "os.execv('/bin/true', ['true'])"),
];
/// Those that a machine may have closed for everyone.
const PERHAPS_CLOSED: [&str; 4] = ["ring of calls", "faults in user space", "namespace of users", "key ring"];

const SCRIPT: &str = "
import ctypes, errno, json, os, struct as packing, sys
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(4096)
told = json.loads(sys.argv[1])
victim, numbers = told['victim'], told['numbers']

def struct(form, *values):
    return ctypes.create_string_buffer(packing.pack(form, *values))

def call(name, *arguments):
    result = libc.syscall(ctypes.c_long(numbers[name]), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result

try:
    eval(told['does'])
    print('done')
except OSError as error:
    print(errno.errorcode[error.errno])
";

fn numbers() -> BTreeMap<&'static str, i64> {
    [
        ("clone3", libc::SYS_clone3),
        ("fcntl", libc::SYS_fcntl),
        ("inotify_init1", libc::SYS_inotify_init1),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("ioctl", libc::SYS_ioctl),
        ("keyctl", libc::SYS_keyctl),
        ("kill", libc::SYS_kill),
        ("memfd_create", libc::SYS_memfd_create),
        ("msgget", libc::SYS_msgget),
        ("openat2", libc::SYS_openat2),
        ("personality", libc::SYS_personality),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("prctl", libc::SYS_prctl),
        ("prlimit64", libc::SYS_prlimit64),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("ptrace", libc::SYS_ptrace),
        ("sched_setaffinity", libc::SYS_sched_setaffinity),
        ("setpgid", libc::SYS_setpgid),
        ("setresuid", libc::SYS_setresuid),
        ("shmget", libc::SYS_shmget),
        ("socket", libc::SYS_socket),
        ("socketpair", libc::SYS_socketpair),
        ("tgkill", libc::SYS_tgkill),
        ("tkill", libc::SYS_tkill),
        ("unshare", libc::SYS_unshare),
        ("userfaultfd", libc::SYS_userfaultfd),
    ]
    .into()
}

/// Runs it to its end and says what it printed last; nothing where it became another program.
fn said(mut command: Command, does: &str, victim: &Victim) -> String {
    let told = json!({ "victim": victim.pid(), "numbers": numbers(), "does": does });
    let command = command.args(["-S", "-c", SCRIPT, &told.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let ended = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let printed = String::from_utf8(ended.stdout).unwrap();
    let failed = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() && printed.is_empty() {
        return "done".into();
    }
    printed.lines().next().map_or_else(|| format!("{} {failed}", ended.status), str::to_owned)
}

#[test]
fn native_code_would_not_get_out() {
    if as_nobody("sandbox::kernel::native_code_would_not_get_out") {
        return;
    }
    let python = python();
    // Its libraries lie beside it, or where the system has them.
    let folders =
        [python.parent().and_then(|bin| bin.parent()).unwrap().into(), "/usr".into(), "/lib".into(), "/lib64".into()];
    let programs: Vec<PathBuf> = [python.clone()].into_iter().chain(loader()).collect();
    let confinement = Confinement { required: true, data: 256 << 20, programs, readable: folders.into(), parent: 0 };
    let launcher = Launcher::at(program());
    let mut wrong = Vec::new();
    for (name, denied, does) in CALLS {
        let mut victim = Victim::start();
        let met = said(launcher.command(Stdin::Pipe, &confinement, &python, &[]).unwrap(), does, &victim);
        if met != *denied || !victim.is_well() {
            wrong.push(format!("{name}: meets {met}, not {denied}"));
        }
        let got = said(Command::new(&python), does, &victim);
        if got != "done" && !PERHAPS_CLOSED.contains(name) {
            wrong.push(format!("{name}: meets {got} without a sandbox too, so it shows nothing"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A Python that this user can run; it needs no packages.
fn python() -> PathBuf {
    let setup = checkout().join(".cache/venv/bin/python");
    let places = [setup, "/usr/bin/python3".into(), "/usr/local/bin/python3".into()];
    let runs = |place: &PathBuf| Command::new(place).arg("-V").output().is_ok_and(|ended| ended.status.success());
    places.iter().filter_map(|place| place.canonicalize().ok()).find(runs).unwrap()
}

/// What programs are loaded by, as this one is.
fn loader() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.rfind(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("ld"))).map(PathBuf::from)
}
