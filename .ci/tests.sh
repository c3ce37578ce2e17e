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
# With more failures than this, something is wrong.
readonly most_again=5
# A test that takes more seconds than this, by itself and on a machine on which Node starts in 50 ms, belongs in
# `make test-long`. Those that the list names may take longer.
readonly longest=10 known_slow=.ci/slow-tests.txt
unsteady=()
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

# again: runs the tests that failed once more, each by itself. Tests share the cores with each other and with whatever else the
# machine does, so a wait can be too short; a defect fails twice. Every test that passes the second time is listed.
again() {
    local log test count status=0
    for log in it cluster alone; do
        # A program that ended before its last test has no such line: its failure stands.
        count=$(sed -nE 's/^test result: .* ([0-9]+) failed;.*/\1/p' "$logs/$log")
        mapfile -t tests < <(sed -nE 's/^test ([^ ]+) \.\.\. FAILED.*/\1/p' "$logs/$log")
        if [[ $count != "${#tests[@]}" ]] || (( count > most_again )); then
            printf '### %s tests of %s failed: no test is run again\n' "${count:-some}" "$log"
            return 1
        fi
        for test in "${tests[@]}"; do
            printf '### again: %s\n' "$test"
            if cargo test --locked --quiet --test "${log/alone/it}" -- --exact "$test"; then unsteady+=("$test"); else status=1; fi
        done
    done
    if (( ${#unsteady[@]} )); then printf '### passed only the second time: %s\n' "${unsteady[@]}"; fi
    return $status
}

# took SECONDS LOG...: the tests of these logs that took at least so long, the slowest first.
took() {
    local least=$1
    shift
    sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' "$@" | awk -v least="$least" '$1 >= least' | sort -rn
}

slow_tests() {
    printf '### tests that took 2 s or more:\n'
    took 2 "$logs"/*
}

# Prints how many seconds a test may take on this machine.
allowed() {
    local begin=$EPOCHREALTIME
    for _ in {1..10}; do node -e 0; done
    awk -v longest="$longest" -v took="$EPOCHREALTIME-$begin" 'BEGIN { split(took, t, "-"); start = (t[1] - t[2]) / 10
        printf "%.1f", longest * (start > 0.05 ? start / 0.05 : 1) }'
}

# too_slow: names the tests that take too long also by themselves. A test that waits for the cores is not slow.
too_slow() {
    local log test most status=0
    most=$(allowed)
    for log in it cluster alone; do
        mapfile -t tests < <(took "$most" "$logs/$log" | cut -d' ' -f2 | grep -vxFf <(sed 's/ .*//' "$known_slow"))
        for test in "${tests[@]}"; do
            cargo test --locked --quiet --test "${log/alone/it}" -- --exact "$test" >"$logs/by-itself" 2>&1 || true
            if [[ -n $(took "$most" "$logs/by-itself") ]]; then
                printf '### slow: %s takes over %s s: make it faster, or let `make test-long` run it\n' "$test" "$most"
                status=1
            fi
            rm "$logs/by-itself"
        done
    done
    return $status
}

if [[ ${1:-} == long ]]; then
    trap 'slow_tests; rm -rf "$logs"' EXIT
    step unit cargo test --locked --lib -- --ignored
    step it cargo test --locked --test it -- --ignored --test-threads 1
    step cluster cargo test --locked --test cluster -- --ignored --test-threads 1
    exit
fi

step build cargo test --locked --no-run --lib --tests
step unit cargo test --locked --lib --test tidy
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
if (( failed )); then again && failed=0; fi
too_slow || failed=1
exit $failed
