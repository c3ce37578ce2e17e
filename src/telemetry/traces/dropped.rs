//! The queue of spans before the exporter, and the counter of spans that were dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use prometheus::{IntCounter, IntCounterVec, Opts};

use crate::telemetry::catalog::Catalog;

/// How many spans wait at most, unless `OTEL_BSP_MAX_QUEUE_SIZE` says otherwise.
const MAX_WAITING: usize = 2048;

/// Counts spans that were dropped.
#[derive(Clone, Debug)]
pub(super) struct DroppedSpans {
    total: IntCounterVec,
    /// As many waited as may.
    queue_full: IntCounter,
    /// The receiver did not take them.
    not_taken: IntCounter,
}

impl DroppedSpans {
    pub(super) fn new() -> prometheus::Result<Self> {
        let opts = Opts::new("hawsepipe_trace_spans_dropped_total", "Spans of traces that were not sent");
        let total = IntCounterVec::new(opts, &["reason"])?;
        let of = |reason: &str| total.with_label_values(&[reason]);
        let (queue_full, not_taken) = (of("queue_full"), of("not_taken"));
        Ok(Self { total, queue_full, not_taken })
    }

    pub(super) fn register(&self, catalog: &Catalog) -> prometheus::Result<()> {
        catalog.keep_series(self.total.clone())
    }

    /// Makes a queue of at most `max` spans before an exporter.
    pub(super) fn queue<E: SpanExporter + 'static>(&self, exporter: E, max: Option<usize>) -> SpanQueue {
        let max = max.filter(|max| *max > 0).unwrap_or(MAX_WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let exporter = CountingExporter { exporter, waiting: Arc::clone(&waiting), dropped: self.clone() };
        let config = BatchConfigBuilder::default().with_max_queue_size(max).build();
        let batches = BatchSpanProcessor::new(exporter, config);
        SpanQueue { batches, waiting, max, dropped: self.clone() }
    }
}

/// The queue of spans. The library has the queue itself and drops what does not fit, but does not say how much, so that
/// spans are counted on their way in.
#[derive(Debug)]
pub(super) struct SpanQueue {
    batches: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    max: usize,
    dropped: DroppedSpans,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.batches.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.max {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return self.dropped.queue_full.inc();
        }
        self.batches.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Counts the spans that leave the queue, and those that the receiver did not take.
#[derive(Debug)]
struct CountingExporter<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
    dropped: DroppedSpans,
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::AcqRel);
        let sent = self.exporter.export(batch).await;
        if sent.is_err() {
            self.dropped.not_taken.inc_by(spans as u64);
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::sync::{Mutex, PoisonError};

    use opentelemetry::trace::{Span, Tracer, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    /// Says that it was given a batch, and then waits until it is told what becomes of it.
    #[derive(Debug)]
    struct Held {
        given: SyncSender<()>,
        fails: Mutex<Receiver<bool>>,
    }

    impl SpanExporter for Held {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            self.given.send(()).unwrap();
            let fails = self.fails.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap();
            if fails { Err(opentelemetry_sdk::error::OTelSdkError::InternalFailure("held".into())) } else { Ok(()) }
        }
    }

    #[test]
    fn spans_that_find_no_room_or_are_not_taken_are_counted() {
        let (given, was_given) = sync_channel(8);
        let (fail, fails) = sync_channel(8);
        let dropped = DroppedSpans::new().unwrap();
        let queue = dropped.queue(Held { given, fails: Mutex::new(fails) }, Some(3));
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let spans = |many: usize| (0..many).for_each(|_| provider.tracer("test").start("span").end());
        let counted = || [&dropped.queue_full, &dropped.not_taken].map(IntCounter::get);
        spans(2);
        std::thread::scope(|scope| {
            let flushed = scope.spawn(|| provider.force_flush());
            was_given.recv().unwrap();
            // The batch of two has left the queue and is on its way, so that three may wait.
            spans(5);
            assert_eq!(counted(), [2, 0]);
            fail.send(true).unwrap();
            assert!(flushed.join().unwrap().is_err());
        });
        assert_eq!(counted(), [2, 2]);
        fail.send(false).unwrap();
        provider.shutdown().unwrap();
        assert_eq!(counted(), [2, 2], "the three that waited were sent");
    }
}
