#!/usr/bin/env bash
# Starts the quickstart's gateway in the foreground and shows one call going through its chains. `make run` calls it with
# everything built and installed; Ctrl-C ends it.
#
#   run.sh BINARY
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=${1:?usage: run.sh BINARY}
listen=${HAWSEPIPE_LISTEN:-127.0.0.1:8080}
admin=${HAWSEPIPE_ADMIN:-127.0.0.1:9090}
url=http://$listen/mcp
tool=files__read_text_file
gateway=

# A heading; bold on a terminal that wants it.
say() {
    if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

# Ends the gateway, which ends its children, and waits for it.
stop() {
    trap - INT TERM EXIT
    if [[ -n $gateway ]]; then
        kill -TERM "$gateway" 2>/dev/null || true
        wait "$gateway" 2>/dev/null || true
    fi
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

# Waits until the gateway lists the tool: its plan is loaded and the server behind it has answered.
await_tool() {
    for _ in $(seq 1 300); do
        if ! kill -0 "$gateway" 2>/dev/null; then
            echo "The gateway ended; its last lines above say why." >&2
            return 1
        fi
        if "$binary" tools --admin "$admin" 2>/dev/null | grep "$tool" >/dev/null; then
            return 0
        fi
        sleep 0.2
    done
    echo "No tool $tool after 60 s; the gateway's lines above say what it waits for." >&2
    return 1
}

say "Starting the gateway: hawsepipe run -f manifests/quickstart"
"$binary" run -f "$here" --listen "$listen" --admin "$admin" &
gateway=$!
await_tool

say "Before: what the server's file holds (manifests/quickstart/notes/handover.md)"
cat "$here/notes/handover.md"

say "After: the same file, read by a tool call through the gateway, and what each entry of the chains did"
echo "\$ hawsepipe call $tool '{\"path\": \"handover.md\"}' --trace"
"$binary" call "$tool" '{"path": "handover.md"}' --url "$url" --trace

say "The gateway runs. MCP: $url   Admin: http://$admin"
cat <<TEXT
Try next, in another terminal:

  $binary tools
  $binary call $tool '{"path": "changes.md"}' --trace        # cut to 600 tokens
  $binary call everything__echo '{"message": "my password is x"}'      # denied, never sent
  $binary status
  $binary calls --follow
  $binary explain $tool
  $binary executions --limit 10

  curl -s $url -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \\
    -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/list' \\
    -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'

Add it to an MCP client:

  claude mcp add --transport http hawsepipe $url

Edit a file in manifests/quickstart or plugins and call again: \`$binary wait\` returns when the edit is in force, which
takes a fifth of a second. Ctrl-C ends the gateway.
TEXT
wait "$gateway"
