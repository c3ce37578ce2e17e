//! One owned registry, which remembers what it holds: the reference is written from it.

use std::sync::{Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::proto::MetricType;
use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// What a metric is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels.
    pub labels: Vec<String>,
    /// What it says.
    pub help: String,
}

/// A registry.
#[derive(Default)]
pub struct Catalog {
    registry: Registry,
    described: Mutex<Vec<Described>>,
}

impl Catalog {
    /// Registers a metric.
    ///
    /// # Errors
    /// Where a metric of the same name is there already.
    pub fn keep<C: Collector + 'static>(&self, metric: C) -> prometheus::Result<()> {
        let new = describe(&metric);
        self.registry.register(Box::new(metric))?;
        self.described.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(())
    }

    /// Makes a counter.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn counter(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.keep(metric.clone())?;
        Ok(metric)
    }

    /// Makes a gauge.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.keep(metric.clone())?;
        Ok(metric)
    }

    /// Makes a histogram with these upper bounds of its buckets.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> prometheus::Result<HistogramVec> {
        let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
        self.keep(metric.clone())?;
        Ok(metric)
    }

    /// The text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        // Writing to a Vec cannot fail; a family that cannot be encoded leaves the rest.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Every metric, by name.
    pub fn reference(&self) -> Vec<Described> {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        described.sort_by(|a, b| a.name.cmp(&b.name));
        described
    }
}

/// What a collector holds: its type stands in what it collects, its labels in its descriptors.
fn describe(collector: &impl Collector) -> Vec<Described> {
    let families = collector.collect();
    let kind = |name: &str| {
        let family = families.iter().find(|family| family.name() == name);
        match family.map(|family| family.get_field_type()) {
            Some(MetricType::COUNTER) => "counter",
            Some(MetricType::HISTOGRAM) => "histogram",
            _ => "gauge",
        }
    };
    let descriptors = collector.desc().into_iter();
    descriptors
        .map(|desc| Described {
            name: desc.fq_name.clone(),
            kind: kind(&desc.fq_name),
            labels: desc.variable_labels.clone(),
            help: desc.help.clone(),
        })
        .collect()
}
