//! The Helm charts: what they render, and what an API server says to it.

mod cases;
mod definitions;
mod demo;
mod golden;
mod helm;
mod manifests;
mod misspelt;
mod operator;
mod readme;
mod rights;
mod working;
