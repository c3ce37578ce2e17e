//! Turns spans on and off while the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use opentelemetry::Context;
use opentelemetry::trace::{SpanBuilder, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, callsite};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{self, Filter};

use crate::telemetry::trace_context::TARGET;

/// The tracer of the moment, and whether there is one.
///
/// The layer that uses it stays the same: spans find their parents through it, which a layer that is replaced would
/// prevent.
#[derive(Clone)]
pub(super) struct Switch {
    on: Arc<AtomicBool>,
    tracer: Arc<ArcSwap<SdkTracer>>,
}

impl Default for Switch {
    fn default() -> Self {
        let nowhere = SdkTracerProvider::builder().build().tracer("off");
        Self { on: Arc::default(), tracer: Arc::new(ArcSwap::from_pointee(nowhere)) }
    }
}

impl Switch {
    pub(super) fn on(&self, tracer: SdkTracer) {
        self.tracer.store(Arc::new(tracer));
        self.turn(true);
    }

    pub(super) fn off(&self) {
        self.turn(false);
    }

    fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Release);
        // Places that make spans remember whether anybody is interested.
        callsite::rebuild_interest_cache();
    }

    fn wants(&self, of: &Metadata<'_>) -> bool {
        self.on.load(Ordering::Acquire) && of.is_span() && of.target() == TARGET
    }
}

impl Tracer for Switch {
    type Span = Span;

    fn build_with_context(&self, builder: SpanBuilder, parent: &Context) -> Span {
        self.tracer.load().build_with_context(builder, parent)
    }
}

impl<S: Subscriber> Filter<S> for Switch {
    fn enabled(&self, of: &Metadata<'_>, _: &layer::Context<'_, S>) -> bool {
        self.wants(of)
    }

    fn callsite_enabled(&self, of: &'static Metadata<'static>) -> Interest {
        if self.wants(of) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if self.on.load(Ordering::Acquire) { LevelFilter::DEBUG } else { LevelFilter::OFF })
    }
}
