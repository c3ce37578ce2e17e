//! The worker's side of the wire, spoken with byte by byte: what `docs/worker-protocol.md` says of it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use hawsepipe::node::protocol::frame::{FrameKind, Start, begin};
use hawsepipe::node::sandbox::Confinement;
use hawsepipe::node::{Launcher, find_node, launcher};
use serde_json::{Value, json};

use crate::fixtures::{checkout, program};
use crate::gateway::harness::Folder;

/// A worker and our end of its socket.
struct Worker {
    child: Child,
    socket: UnixStream,
    inbox: Vec<u8>,
    _folder: Folder,
}

impl Worker {
    /// One that loads `code` and said that it has.
    fn ready(code: &str) -> Self {
        Self::with(code, &[])
    }

    /// The same, with these words after the plugin's file.
    fn with(code: &str, words: &[&str]) -> Self {
        let folder = Folder::new();
        folder.write("plugin.mjs", code);
        let (socket, theirs) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let asking = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let node = asking.block_on(find_node("node".as_ref())).unwrap();
        let (hosts, plugin) = (checkout().join("src/node/host"), folder.path().join("plugin.mjs"));
        let host = hosts.join("host.mjs");
        let confinement = Confinement {
            required: false,
            data: node.data + (256 << 20),
            programs: node.files,
            readable: vec![hosts, folder.path().into()],
            parent: 0,
        };
        let launched = Launcher::at(program()).command(launcher::Stdin::Socket, &confinement, &node.program, &[]);
        let mut command = launched.unwrap();
        command.args([host, plugin]).args(words).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let mut worker = Self { child, socket, inbox: Vec::new(), _folder: folder };
        let (kind, header, body) = worker.receive();
        assert_eq!((kind, &header["version"], body.as_str()), (FrameKind::Ready, &json!(1), ""));
        worker
    }

    fn send(&mut self, kind: FrameKind, header: &Value, body: Option<&str>) {
        let frame = frame(kind, header, body);
        self.socket.write_all(&frame).unwrap();
    }

    fn call(&mut self, id: u64, content: &str) {
        self.send(FrameKind::Call, &call_header(id), Some(content));
    }

    fn receive(&mut self) -> (FrameKind, Value, String) {
        loop {
            if let Start::Whole(head) = Start::of(&self.inbox, |_| 1 << 30).unwrap() {
                let (json, body) = head.parts(&self.inbox);
                let frame =
                    (head.kind, serde_json::from_slice(json).unwrap(), String::from_utf8(body.to_vec()).unwrap());
                self.inbox.drain(..head.length());
                return frame;
            }
            let mut chunk = [0; 4096];
            let read = match self.socket.read(&mut chunk) {
                // A child of another test has ended.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            assert!(read > 0, "the worker is gone");
            self.inbox.extend_from_slice(&chunk[..read]);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn frame(kind: FrameKind, header: &Value, body: Option<&str>) -> Vec<u8> {
    let mut frame = Vec::new();
    begin(&mut frame, kind, header, body.map(str::as_bytes)).unwrap();
    frame.extend_from_slice(body.unwrap_or_default().as_bytes());
    frame
}

fn call_header(id: u64) -> Value {
    json!({"id": id, "timeoutMs": 1000, "input": {"metadata": {"phase": "response"}}})
}

const ECHO: &str = "export default ({ rawContent }) => ({ text: rawContent, continue: true, metadata: { n: 1 } });";

#[test]
fn frames_pass_in_whatever_pieces_they_come() {
    let mut worker = Worker::ready(ECHO);
    let all: Vec<u8> = (1..=3).flat_map(|id| frame(FrameKind::Call, &call_header(id), Some("aé😀"))).collect();
    for size in [1, 7, all.len()] {
        for piece in all.chunks(size) {
            worker.socket.write_all(piece).unwrap();
        }
        for id in 1..=3 {
            let (kind, header, body) = worker.receive();
            assert_eq!((kind, body.as_str()), (FrameKind::Result, "aé😀"), "in pieces of {size}");
            assert_eq!(header, json!({"id": id, "continue": true, "metadata": {"n": 1}}));
        }
    }
}

#[test]
fn a_ping_comes_back_also_while_a_call_waits() {
    let mut worker = Worker::ready("export default () => new Promise(() => {});");
    worker.call(1, "");
    for header in [json!({}), json!({"n": [1, "é"]})] {
        worker.send(FrameKind::Ping, &header, None);
        assert_eq!(worker.receive(), (FrameKind::Ping, header, String::new()));
    }
}

#[test]
fn a_line_names_the_call_that_prints_it() {
    let code = "setInterval(() => console.log('nobody'), 50).unref();
        export default async ({ rawContent }, { log }) => {
            await new Promise((done) => setTimeout(done, Number(rawContent)));
            console.log('console'), log('own');
            return { text: '', continue: true };
        };";
    let mut worker = Worker::with(code, &["concurrent"]);
    for (id, wait) in [(1, "300"), (2, "200"), (3, "100")] {
        worker.call(id, wait);
    }
    let (mut lines, mut answers) = (Vec::new(), Vec::new());
    while answers.len() < 3 {
        let (kind, header, body) = worker.receive();
        match kind {
            FrameKind::Log => lines.push((body, header["id"].as_u64().unwrap())),
            kind => answers.push((kind, header["id"].as_u64().unwrap())),
        }
    }
    assert_eq!(answers, [(FrameKind::Result, 3), (FrameKind::Result, 2), (FrameKind::Result, 1)]);
    let nobodys = lines.extract_if(.., |(line, _)| line == "nobody").collect::<Vec<_>>();
    assert!(!nobodys.is_empty() && nobodys.iter().all(|(_, id)| *id == 0), "{nobodys:?}");
    let expected = [3, 2, 1].into_iter().flat_map(|id| ["console", "own"].map(|line| (line.to_owned(), id)));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

#[test]
fn a_cancelled_call_still_ends_with_an_answer() {
    let mut worker = Worker::ready(
        "export default async (input, { signal }) => {
            await new Promise((resolve) => signal.addEventListener('abort', resolve));
            return { text: signal.reason.name, continue: true };
         }",
    );
    worker.call(4, "");
    // One that is not in flight is nobody's.
    worker.send(FrameKind::Cancel, &json!({"id": 3}), None);
    worker.send(FrameKind::Ping, &json!({}), None);
    assert_eq!(worker.receive().0, FrameKind::Ping);
    worker.send(FrameKind::Cancel, &json!({"id": 4}), None);
    let (kind, header, body) = worker.receive();
    assert_eq!((kind, &header["id"], body.as_str()), (FrameKind::Result, &json!(4), "AbortError"));
}

#[test]
fn an_ask_is_answered_by_its_number_and_unknown_kinds_are_passed_over() {
    let mut worker = Worker::ready(
        "export default async (input, { callTool }) => {
            const [a, b] = await Promise.all([callTool('t', { n: 1 }), callTool('u').catch((e) => e.message)]);
            return { text: `${a.ok} ${b}`, continue: true };
         }",
    );
    worker.call(1, "");
    let (first, second) = (worker.receive(), worker.receive());
    assert_eq!(first, (FrameKind::Ask, json!({"id": 1, "ask": 1, "tool": "t"}), r#"{"n":1}"#.into()));
    assert_eq!(second, (FrameKind::Ask, json!({"id": 1, "ask": 2, "tool": "u"}), "{}".into()));
    worker.send(FrameKind::Chunk, &json!({"stream": 1}), Some("x"));
    worker.send(FrameKind::Reply, &json!({"ask": 99, "error": false}), Some("{}"));
    worker.send(FrameKind::Reply, &json!({"ask": 2, "error": true}), Some(r#"{"code":-1,"message":"no"}"#));
    worker.send(FrameKind::Reply, &json!({"ask": 1, "error": false}), Some(r#"{"ok":true}"#));
    let (kind, _, body) = worker.receive();
    assert_eq!((kind, body.as_str()), (FrameKind::Result, "true no"));
}

#[test]
fn a_worker_ends_with_its_socket() {
    let mut worker = Worker::ready(ECHO);
    worker.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(worker.child.wait().unwrap().success());
}
