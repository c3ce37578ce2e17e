//! Speaks with MCP servers: stdio children and Streamable HTTP. Implements `domain::ports::CallUpstream`.
