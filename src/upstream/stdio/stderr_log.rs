//! Logs what a process writes to its stderr, up to a number of lines per second.

use std::sync::Arc;

use tokio::process::ChildStderr;

use crate::domain::ids::ObjectKey;
use crate::domain::secret::Mask;
use crate::domain::upstream::Target;
use crate::transport::flow::Flow;
use crate::transport::rate_limit::RateLimit;
use crate::transport::{LastWords, LinePiece, LineReader};
use crate::upstream::context::UpstreamContext;
use crate::upstream::metrics::{Dropped, UpstreamMetrics};

/// The maximum number of bytes of a line that are logged. The rest of the line is skipped.
const LINE: usize = 8 * 1024;
/// The maximum number of lines that are logged in one second.
const LINES: u64 = 100;

pub(super) struct StderrLog {
    upstream: ObjectKey,
    mask: Mask,
    rate: RateLimit,
    metrics: UpstreamMetrics,
    last_words: Arc<LastWords>,
    /// How many lines were left out of the log since the last message about this.
    left_out: u64,
}

impl StderrLog {
    /// Creates the log of a process of `target`. `last_words` receives each line.
    pub(super) fn new(target: &Target, shared: &UpstreamContext, last_words: Arc<LastWords>) -> Self {
        let (upstream, metrics) = (target.plan.key.clone(), shared.metrics.clone());
        let rate = RateLimit::default();
        Self { upstream, mask: target.mask(), rate, metrics, last_words, left_out: 0 }
    }

    /// Logs until the end of the stream.
    pub(super) async fn run(mut self, stderr: ChildStderr) {
        let mut lines = LineReader::new(stderr, LINE, None);
        let mut logged = Flow::new(LINES);
        while let Ok(Some(piece)) = lines.next().await {
            let cost = piece.cost();
            if let LinePiece::Line(line) | LinePiece::Last(line) | LinePiece::Cut(line) = piece {
                let text = self.mask.printable(line);
                if !text.is_empty() {
                    self.take(&text, &mut logged);
                }
            }
            self.rate.spend(cost).await;
        }
        self.say_left_out();
    }

    fn take(&mut self, text: &str, logged: &mut Flow) {
        self.last_words.add(text);
        if logged.take(1) {
            self.say_left_out();
            tracing::info!(target: "hawsepipe::server", upstream = %self.upstream, "{text}");
        } else {
            self.left_out += 1;
            self.metrics.dropped(&self.upstream.name, Dropped::Log);
        }
    }

    fn say_left_out(&mut self) {
        let lines = std::mem::take(&mut self.left_out);
        if lines > 0 {
            tracing::warn!(upstream = %self.upstream, lines, "lines of its stderr were left out: it writes more than {LINES} a second");
        }
    }
}
