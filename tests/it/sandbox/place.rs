//! What attempts aim at: files, processes and sockets of the same user, outside the sandbox.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::gateway::harness::Folder;

/// All of it. It goes with its value.
pub struct Place {
    folder: Folder,
    port: u16,
    _listening: UnixListener,
}

/// A process that waits until it is ended.
pub struct Victim(Child);

impl Victim {
    pub fn start() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("600").env("SECRET", "swordfish").stdout(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it still is as it was, neither ended nor stopped.
    pub fn is_well(&mut self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        self.0.try_wait().unwrap().is_none() && stat.contains(") S")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    pub fn new() -> Self {
        let folder = Folder::new();
        folder.write("secret", "swordfish");
        folder.write("module.mjs", "export const secret = 'swordfish'");
        folder.write("secret.json", "{}");
        let listening = UnixListener::bind(folder.path().join("socket")).unwrap();
        Self { port: serve(), folder, _listening: listening }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder for code, with links out of it and a script that would steer Node.js.
    pub fn code_folder(&self, name: &str) -> PathBuf {
        let folder = self.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        symlink(self.path().join("secret"), folder.join("link.txt")).unwrap();
        symlink(self.path(), folder.join("link")).unwrap();
        std::fs::write(folder.join("steer.cjs"), "globalThis.steered = true;").unwrap();
        std::fs::write(folder.join("none.mjs"), "process.exit();").unwrap();
        folder
    }

    /// What one attempt is told, with a folder of its own.
    pub fn told(&self, victim: &Victim, worker: u32, other: &Path) -> Value {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let dir = self.path().join(&name);
        std::fs::create_dir_all(dir.join("empty")).unwrap();
        std::fs::write(dir.join("file"), "content").unwrap();
        let of = |name: &str| self.path().join(name);
        json!({
            "victim": victim.pid(), "worker": worker, "other": other, "secret": of("secret"), "module": of("module.mjs"),
            "json": of("secret.json"), "dir": dir, "port": self.port, "path": of("socket"),
            "name": name, "library": library(),
        })
    }
}

/// Says "fine" to everyone who asks by HTTP.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.set_read_timeout(Some(std::time::Duration::from_millis(200)));
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine");
        }
    });
    port
}

/// A library that this process has loaded, and Node.js can load.
fn library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.rfind(|path| path.contains("libc.so") || path.contains("ld-musl")).unwrap().to_owned()
}
