//! Warm Node.js workers: protocol, worker, pool, inspection. Implements `domain::ports::{RunPlugin, Inspect}`.
