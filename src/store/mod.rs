//! Keeps recent executions and calls. Implements `domain::ports::Records`.

mod memory;

pub use memory::MemoryRecords;
