//! Metrics, logs and traces.

#[cfg(test)]
mod captured_log;
pub mod catalog;
mod json_line;
pub mod log;
pub mod log_buffer;
pub mod metrics;
pub mod plugin_log;
pub mod process;
pub mod scrape_input;
pub mod terminal;
pub mod trace_context;
pub mod traces;
