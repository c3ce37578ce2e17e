"""fastmcp's proxy in front of an upstream: peer.py PORT UPSTREAM_URL. Ends when standard input does."""

import os
import sys
import threading

from fastmcp.server import create_proxy


def end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


port, upstream = int(sys.argv[1]), sys.argv[2]
threading.Thread(target=end_with_parent, daemon=True).start()
create_proxy(upstream, name="peer").run(
    transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="ERROR"
)
