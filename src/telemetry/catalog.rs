//! One owned registry, which remembers what it holds: the reference is written from it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
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
    /// What it counts or measures: its `HELP` text.
    pub help: String,
}

/// A registry.
#[derive(Default)]
pub struct Catalog {
    registry: Registry,
    described: Mutex<Vec<Described>>,
    /// Take series out of the metrics that have labels.
    pruners: Mutex<Vec<Pruner>>,
}

/// Says of a label and its value whether what it names is gone.
pub type IsGone<'a> = &'a dyn Fn(&str, &str) -> bool;
type Pruner = Box<dyn Fn(IsGone<'_>) + Send + Sync>;

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

    /// Registers a metric with labels, whose series go when what a label names is gone.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn keep_series<B: MetricVecBuilder + 'static>(&self, metric: MetricVec<B>) -> prometheus::Result<()>
    where
        MetricVec<B>: Collector + Clone,
    {
        self.keep(metric.clone())?;
        let prune = move |is_gone: IsGone<'_>| {
            for family in metric.collect() {
                for series in family.get_metric() {
                    let labels: HashMap<_, _> = series.get_label().iter().map(|l| (l.name(), l.value())).collect();
                    if labels.iter().any(|(label, value)| is_gone(label, value)) {
                        // Another may have taken it out in between.
                        let _ = metric.remove(&labels);
                    }
                }
            }
        };
        self.pruners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(prune));
        Ok(())
    }

    /// Takes out the series of what is gone.
    pub fn prune(&self, is_gone: IsGone<'_>) {
        self.pruners.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|prune| prune(is_gone));
    }

    /// Makes a counter.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn counter(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.keep_series(metric.clone())?;
        Ok(metric)
    }

    /// Makes a gauge.
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.keep_series(metric.clone())?;
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
        self.keep_series(metric.clone())?;
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

/// The metrics of a collector: their types come from what it collects, their labels from its descriptors.
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
