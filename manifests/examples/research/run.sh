#!/usr/bin/env bash
# Starts the gateway of this example in the foreground, and asks its research tool one question. `make run-research` calls it
# with everything built; Ctrl-C ends it. The model is a stand-in, unless MODEL_URL and MODEL_NAME name another: the base URL of
# an endpoint that speaks the chat completions of OpenAI, with the key in MODEL_KEY if it needs one.
#
#   run.sh BINARY [QUESTION]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=${1:?usage: run.sh BINARY [QUESTION]}
question=${2:-How can a server ask the user for input during a call of a tool?}
listen=${HAWSEPIPE_LISTEN:-127.0.0.1:8080}
admin=${HAWSEPIPE_ADMIN:-127.0.0.1:9090}
url=http://$listen/mcp
tool=research
work=$(mktemp -d)
children=()

# A heading; bold on a terminal that wants it.
say() {
    if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

# Ends the gateway, which ends its children, and the stand-in; waits for them.
stop() {
    trap - INT TERM EXIT
    if (( ${#children[@]} > 0 )); then
        kill -TERM "${children[@]}" 2>/dev/null || true
        wait "${children[@]}" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

# Waits until a command succeeds, for a minute, as long as the last child runs.
await() {
    for _ in $(seq 1 300); do
        if ! kill -0 "${children[-1]}" 2>/dev/null; then
            echo "A process ended; its last lines above say why." >&2
            return 1
        fi
        if "$@" >/dev/null 2>&1; then
            return 0
        fi
        sleep 0.2
    done
    echo "Not ready after 60 s; the lines above say what is missing." >&2
    return 1
}

has_tool() { "$binary" tools --admin "$admin" | grep -w "$tool"; }

# What the stand-in answers where the smallest answer would end the research at once.
answers='[{"agent": "planner", "repeat": true, "json": {"title": "[stand-in] plan", "hasEnoughContext": false,
    "steps": [{"id": "s1", "title": "[stand-in] search once"}]}}]'

if [[ -z ${MODEL_URL:-} ]]; then
    say "The model is a stand-in, which understands nothing: the report shows the form, not an answer."
    echo "For a real one: MODEL_URL=https://.../v1 MODEL_NAME=... MODEL_KEY=... make run-research"
    echo "$answers" > "$work/answers.txt"
    node "$here/model-stand-in.mjs" --script "$work/answers.txt" > "$work/stand-in.txt" &
    children+=($!)
    await grep url "$work/stand-in.txt"
    MODEL_URL=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$work/stand-in.txt")
    MODEL_NAME=stand-in
    MODEL_KEY=
fi

mkdir -p "$work/manifests" "$work/secrets/model"
cp -r "$here/research.yaml" "$here/plugins" "$work/manifests"
key=
if [[ -n ${MODEL_KEY:-} ]]; then
    printf '%s' "$MODEL_KEY" > "$work/secrets/model/key"
    key=', apiKeySecretRef: {name: model, key: key}'
fi
sed -e "s|http://127.0.0.1:8099/v1|$MODEL_URL|" -e "s|model: stand-in|model: \"${MODEL_NAME:?names the model}\"$key|" \
    "$here/gateway.yaml" > "$work/manifests/gateway.yaml"

say "Starting the gateway: hawsepipe run -f manifests/examples/research"
"$binary" run -f "$work/manifests" --secrets-dir "$work/secrets" --listen "$listen" --admin "$admin" &
children+=($!)
await has_tool

arguments=$(node -p 'JSON.stringify({ prompt: process.argv[1] })' "$question")
say "\$ hawsepipe call $tool '$arguments'      # the report, and after it the sources"
"$binary" call "$tool" "$arguments" --url "$url" || echo "The line above begins with the reason (docs/pipelines.md)."

say "\$ hawsepipe runs list"
"$binary" runs list --admin "$admin"

say "The gateway runs. MCP: $url   Admin: http://$admin"
cat <<TEXT
Try next, in another terminal:

  $binary pipelines explain $tool --admin $admin
  $binary call $tool '{"prompt": "What is a cursor?", "depth": "light"}' --url $url
  $binary runs show ID --admin $admin            # an id of the list above: its steps and their times
  $binary calls --admin $admin                   # the searches are calls like those of a client

Add it to an MCP client:

  claude mcp add --transport http hawsepipe $url

Put your own search into plugins/library.mjs, or another MCP server into research.yaml. Ctrl-C ends the gateway.
TEXT
wait "${children[-1]}"
