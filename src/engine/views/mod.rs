//! The data that the admin API, `explain`, the metrics and the report show.

pub(crate) mod explain;
pub(crate) mod objects;
pub(crate) mod report;
pub(crate) mod scrape;
pub(crate) mod status;
