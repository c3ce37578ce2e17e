//! The reports of the gateways' pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::report::{RefusingReport, Report, UpstreamReport};

/// The pods of one gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pods {
    /// The number of pods, ready or not.
    pub(super) all: u32,
    /// What keeps one of them from becoming ready, in its own words; `None` if none is known to fail.
    pub(super) failing: Option<String>,
    /// The ready pods by name, each with its report, or why there is none.
    pub(super) ready: BTreeMap<String, Result<Arc<Reported>, String>>,
}

/// A report that can be searched for an object.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) report: Report,
    upstreams: HashMap<String, usize>,
    refusing: HashMap<String, usize>,
    problems: HashMap<ObjectId, Vec<usize>>,
}

impl Reported {
    pub(super) fn new(report: Report) -> Self {
        let upstreams = report.upstreams.iter().enumerate().map(|(place, up)| (up.upstream.clone(), place)).collect();
        let refusing = report.refusing.iter().enumerate().map(|(place, told)| (told.chain.clone(), place)).collect();
        let mut problems = HashMap::<_, Vec<_>>::new();
        for (place, problem) in report.problems.iter().enumerate() {
            problems.entry(problem.object.clone()).or_default().push(place);
        }
        let problems = problems.into_iter().filter_map(|(object, places)| Some((object?, places))).collect();
        Self { report, upstreams, refusing, problems }
    }

    /// Returns the part of the report that is about the upstream `name`, in the form `namespace/name`.
    pub(super) fn upstream(&self, name: &str) -> Option<&UpstreamReport> {
        self.report.upstreams.get(*self.upstreams.get(name)?)
    }

    /// Returns the Problems of an object.
    pub(super) fn problems(&self, object: &ObjectId) -> impl Iterator<Item = &Problem> {
        self.problems.get(object).into_iter().flatten().filter_map(|place| self.report.problems.get(*place))
    }

    /// Returns why the pod refuses the calls that the chain `name`, in the form `namespace/name`, selects; `None` if it
    /// does not.
    pub(super) fn refusing(&self, name: &str) -> Option<&RefusingReport> {
        self.report.refusing.get(*self.refusing.get(name)?)
    }
}

impl PartialEq for Reported {
    fn eq(&self, other: &Self) -> bool {
        self.report == other.report
    }
}

impl Eq for Reported {}

impl Pods {
    /// Returns the reports of the ready pods.
    pub(super) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reported().map(|reported| &reported.report)
    }

    /// Returns the same, so that they can be searched.
    pub(super) fn reported(&self) -> impl Iterator<Item = &Reported> {
        self.ready.values().flatten().map(|reported| &**reported)
    }

    /// Returns what the ready pods report about the upstream `name`.
    pub(super) fn of_upstream(&self, name: &str) -> impl Iterator<Item = &UpstreamReport> {
        self.reported().filter_map(move |reported| reported.upstream(name))
    }
}

/// The pods of every gateway.
pub(super) type ByGateway = BTreeMap<ObjectKey, Pods>;
