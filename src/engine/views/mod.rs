//! The data that the admin API, `explain`, the metrics and the report show.

pub(crate) mod asked_access;
mod dependencies;
pub(crate) mod explain;
mod notes;
pub(crate) mod objects;
pub(crate) mod pipelines;
pub(crate) mod report;
pub(crate) mod scrape;
pub(crate) mod sections;
pub(crate) mod sessions;
pub(crate) mod status;
