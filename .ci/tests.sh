#!/usr/bin/env bash
# Runs the Rust tests, and prints how long each step and each slow test took.
#
#   tests.sh         every test but the long ones
#   tests.sh long    the long ones: those that are marked `#[ignore]`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Tests in these modules keep every core busy: they run by themselves, one after another.
readonly alone=(
    conformance:: faults::crossed:: faults::guarded:: faults::matrix:: gateway::held:: gateway::matrix::
    gateway::outcomes::table:: gateway::reload::
)
# Tests of gateways wait for processes; those against Kubernetes wait for watches, leases and pauses most of the time.
readonly gateways_at_once=3 cluster_at_once=4
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$PWD/.ci/timed"

# step NAME COMMAND...: runs the command, and keeps its output for the list of slow tests.
step() {
    local name=$1 started=$SECONDS status=0
    shift
    "$@" 2>&1 | tee "$logs/$name" || status=$?
    printf '### %s: %d s\n' "$name" $((SECONDS - started))
    return $status
}

slow_tests() {
    printf '### tests that took 2 s or more:\n'
    cat "$logs"/* | sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' | awk '$1 >= 2' | sort -rn
}

if [[ ${1:-} == long ]]; then
    trap 'slow_tests; rm -rf "$logs"' EXIT
    step it cargo test --locked --test it -- --ignored --test-threads 1
    step cluster cargo test --locked --test cluster -- --ignored --test-threads 1
    exit
fi

step build cargo test --locked --no-run
step unit cargo test --locked --lib --bins --test tidy
skipped=()
for module in "${alone[@]}"; do skipped+=(--skip "$module"); done
# Their output is printed once they are through, so that it does not mix with the others'.
step cluster cargo test --locked --test cluster -- --test-threads "$cluster_at_once" >"$logs/beside" 2>&1 &
cluster=$!
failed=0
step it cargo test --locked --test it -- --test-threads "$gateways_at_once" "${skipped[@]}" || failed=1
wait "$cluster" || failed=1
cat "$logs/beside" && rm "$logs/beside"
step alone cargo test --locked --test it -- --test-threads 1 "${alone[@]}" || failed=1
slow_tests
exit $failed
