//! The log of the pod: lines of the bridge itself, and what the server writes to its stderr.

use std::io::Write;
use std::sync::Arc;

use tokio::process::ChildStderr;
use tokio::sync::Mutex;

use super::context::Context;
use crate::transport::{LastWords, LinePiece, LineReader};

/// The maximum length of a line in bytes. The rest of a longer line is left out.
const LINE: usize = 8 * 1024;

/// Held while one line is written, so that lines of several processes do not mix.
static TURN: Mutex<()> = Mutex::const_new(());

/// Passes on what a process writes to its stderr, line by line. `label` stands before each line. `last_words` receives
/// the lines too, masked.
pub(super) async fn pass_on(stderr: ChildStderr, label: String, context: Arc<Context>, last_words: Arc<LastWords>) {
    let mut lines = LineReader::new(stderr, LINE, None);
    while let Ok(Some(piece)) = lines.next().await {
        if let LinePiece::Line(line) | LinePiece::Last(line) | LinePiece::Cut(line) = piece {
            last_words.add(&context.mask.printable(line));
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
