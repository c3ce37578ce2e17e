//! OpenTelemetry traces, sent as OTLP. Off unless the standard environment variables or the plan name a receiver.
//!
//! Only `tracing` spans with the target [`TARGET`](super::trace_context::TARGET) are exported, and they cost nothing
//! while traces are off. Exporting never blocks a call: spans wait in a bounded queue, and are dropped if the receiver
//! does not accept them.

mod destination;
mod dropped;
mod otlp_client;
mod switch;
mod variables;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use self::destination::{Environment, SERVICE};
use self::dropped::DroppedSpans;
use self::switch::Switch;
use super::catalog::Catalog;
use crate::domain::plan::TracingPlan;

/// How long sending the last spans can delay the end of the process.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// The trace exporter of a process. It is off until it is told where to send traces. Call [`Traces::end`] before the
/// process ends.
#[derive(Clone)]
pub struct Traces {
    switch: Switch,
    dropped: DroppedSpans,
    exporter: Arc<Mutex<Exporter>>,
}

/// What is exported to, and by what.
#[derive(Default)]
struct Exporter {
    /// Whether the environment decides, so that the plan does not.
    of_environment: bool,
    plan: Option<TracingPlan>,
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Makes an exporter that is off.
    ///
    /// # Errors
    /// If its metric cannot be made, which a test rules out.
    pub fn new() -> prometheus::Result<Self> {
        Ok(Self { switch: Switch::default(), dropped: DroppedSpans::new()?, exporter: Arc::default() })
    }

    /// Registers the metric of spans that were dropped.
    ///
    /// # Errors
    /// If a metric of the same name is already registered.
    pub fn register(&self, catalog: &Catalog) -> prometheus::Result<()> {
        self.dropped.register(catalog)
    }

    /// Returns the layer that makes spans of OpenTelemetry.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.switch.clone());
        layer.with_location(false).with_threads(false).with_filter(self.switch.clone())
    }

    /// Starts to send traces if the standard environment variables name a receiver. Must be called in a tokio runtime.
    pub(super) fn follow_environment(&self) {
        let environment = Environment::read();
        let mut exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        exporter.of_environment = !matches!(environment, Environment::Silent);
        if let Environment::Receiver(protocol) = environment {
            let warnings = variables::warnings(destination::value);
            warnings.iter().for_each(|warning| tracing::warn!("traces: {warning}"));
            exporter.provider = self.started(destination::of_environment(protocol, &self.dropped));
        }
    }

    /// Sends traces where the plan says, from now on, unless the environment decides that. Must be called in a tokio
    /// runtime.
    pub fn follow(&self, plan: Option<&TracingPlan>) {
        let mut exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        if exporter.of_environment || exporter.plan.as_ref() == plan {
            return;
        }
        let new = plan.and_then(|plan| self.started(destination::of_plan(plan, &self.dropped)));
        // What could not be started is tried again when the next plan is applied.
        exporter.plan = plan.filter(|_| new.is_some()).cloned();
        if new.is_none() {
            self.switch.off();
        }
        let old = std::mem::replace(&mut exporter.provider, new);
        if let Some(old) = old {
            tokio::task::spawn_blocking(move || old.shutdown_with_timeout(LAST_SPANS));
        }
    }

    fn started(&self, provider: Result<SdkTracerProvider, String>) -> Option<SdkTracerProvider> {
        let provider = provider.inspect_err(|why| tracing::error!("no traces are sent: {why}")).ok()?;
        self.switch.on(provider.tracer(SERVICE));
        Some(provider)
    }

    /// Sends the remaining spans, for at most three seconds, and ends the exporter.
    pub async fn end(self) {
        let provider = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).provider.take();
        let Some(provider) = provider else { return };
        // The shutdown blocks until a thread has sent the spans through this runtime.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("the last spans are lost: {error}");
        }
    }
}
