//! MCP endpoint and admin API over HTTP. Reaches adapters only through `engine`.
