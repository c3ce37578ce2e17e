//! A metrics registry that can describe its metrics. The reference documentation is generated from the descriptions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricType;
use prometheus::{Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// The description of a metric, as it appears in the reference documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The full name, such as `hawsepipe_calls_total`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of the metric's labels.
    pub labels: Vec<String>,
    /// The `HELP` text: what the metric counts or measures.
    pub help: String,
}

/// A metrics registry that also keeps a description of each metric.
#[derive(Default)]
pub struct Catalog {
    registry: Registry,
    described: Mutex<Vec<Described>>,
    /// For each metric that was registered with [`Catalog::keep_series`], a function that removes its outdated series.
    pruners: Mutex<Vec<Pruner>>,
}

/// A function that receives the name and the value of a label, and returns whether the object that the value names is
/// gone. Series with such a label are removed.
pub type IsGone<'a> = &'a dyn Fn(&str, &str) -> bool;
type Pruner = Box<dyn Fn(IsGone<'_>) + Send + Sync>;

impl Catalog {
    /// Creates a registry with the metrics of this process: its memory, CPU time, threads and open files.
    ///
    /// # Errors
    /// If a metric of the same name is already registered.
    pub fn of_process() -> prometheus::Result<Self> {
        let catalog = Self::default();
        catalog.keep(ProcessCollector::for_self())?;
        Ok(catalog)
    }

    /// Registers a metric. [`Catalog::prune`] does not remove its series.
    ///
    /// # Errors
    /// If a metric of the same name is already registered.
    pub fn keep<C: Collector + 'static>(&self, metric: C) -> prometheus::Result<()> {
        let new = describe(&metric);
        self.registry.register(Box::new(metric))?;
        self.described.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(())
    }

    /// Registers a metric with labels. [`Catalog::prune`] removes its outdated series.
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
                        // An error means that another thread has already removed the series.
                        let _ = metric.remove(&labels);
                    }
                }
            }
        };
        self.pruners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(prune));
        Ok(())
    }

    /// Removes every series that has a label for which `is_gone` returns true, from all metrics registered with
    /// [`Catalog::keep_series`].
    pub fn prune(&self, is_gone: IsGone<'_>) {
        self.pruners.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|prune| prune(is_gone));
    }

    /// Creates a counter with these labels, and registers it with [`Catalog::keep_series`].
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn counter(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.keep_series(metric.clone())?;
        Ok(metric)
    }

    /// Creates a gauge with these labels, and registers it with [`Catalog::keep_series`].
    ///
    /// # Errors
    /// As [`Catalog::keep`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.keep_series(metric.clone())?;
        Ok(metric)
    }

    /// Creates a histogram with these labels, and registers it with [`Catalog::keep_series`]. `buckets` are the upper
    /// bounds of its buckets, in the unit of the metric.
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

    /// Renders all metrics in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        // Writing to a Vec cannot fail. If a metric cannot be encoded, the text ends before it.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns the descriptions of all metrics, sorted by name.
    pub fn reference(&self) -> Vec<Described> {
        let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner).clone();
        described.sort_by(|a, b| a.name.cmp(&b.name));
        described
    }
}

/// Describes the metrics of a collector. The kind comes from the collected families, everything else from the
/// descriptors. A metric without a collected family counts as a gauge.
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
