//! The log of the pod: lines of the bridge itself, and what the server writes to its stderr.

use std::io::Write;

use tokio::process::ChildStderr;
use tokio::sync::Mutex;

use crate::transport::{LinePiece, LineReader};

/// The maximum length of a line in bytes. The rest of a longer line is left out.
const LINE: usize = 8 * 1024;

/// Held while one line is written, so that lines of several processes do not mix.
static TURN: Mutex<()> = Mutex::const_new(());

/// Passes on what a process writes to its stderr, line by line. `label` stands before each line.
pub(super) async fn pass_on(stderr: ChildStderr, label: Option<String>) {
    let mut lines = LineReader::new(stderr, LINE, None);
    let label = label.map(|label| format!("[{label}] ")).unwrap_or_default();
    while let Ok(Some(piece)) = lines.next().await {
        if let LinePiece::Line(line) | LinePiece::Last(line) | LinePiece::Cut(line) = piece {
            write([label.as_bytes(), line, b"\n"].concat()).await;
        }
    }
}

/// Writes a line of the bridge itself.
pub(super) async fn say(message: impl AsRef<str>) {
    write(format!("hawsepipe-bridge: {}\n", message.as_ref()).into_bytes()).await;
}

async fn write(line: Vec<u8>) {
    let _turn = TURN.lock().await;
    // Writing blocks while nobody reads the log. If it fails, there is nobody to be told.
    let _ = tokio::task::spawn_blocking(move || std::io::stderr().write_all(&line)).await;
}
