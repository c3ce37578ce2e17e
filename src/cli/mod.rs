//! Subcommands: the only place that wires adapters to ports.
