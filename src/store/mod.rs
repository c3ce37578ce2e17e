//! Keeps what happened. Implements `domain::ports::Records`.

mod memory;

pub use memory::MemoryRecords;
