//! The Helm charts: what they render, and what an API server says to it.

mod definitions;
mod helm;
