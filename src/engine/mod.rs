//! The use cases: link a plan, call a tool, run a chain, list tools, probe health. Generic over `domain::ports`.
