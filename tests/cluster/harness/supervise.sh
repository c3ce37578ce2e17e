#!/usr/bin/env bash
# Runs the programs of one control plane in FOLDER. When its standard input ends, it kills them and removes the folder:
# the input ends with the test process however that ends, so nothing is left behind.
#
# It reads one order a line and answers each with a process id, or with nothing where that could not be done:
#   start NAME          run NAME.sh, with its output in NAME.log
#   signal NAME SIGNAL  send it a signal; 0 asks whether it runs
#   kill NAME           kill it and wait until it is gone
set -u
cd "${1:?the folder}" || exit 1

end() {
    local pids
    pids=$(jobs -p)
    # shellcheck disable=SC2086  # one word each
    [[ -z $pids ]] || kill -KILL $pids
    wait
    cd /
    rm -rf "$1"
}
trap 'end "$1"' EXIT

while read -r order name signal; do
    case $order in
        start)
            sh "$name.sh" </dev/null >>"$name.log" 2>&1 &
            echo $! | tee "$name.pid"
            ;;
        signal)
            kill -s "$signal" "$(<"$name.pid")" && cat "$name.pid" || echo
            ;;
        kill)
            kill -KILL "$(<"$name.pid")"
            wait "$(<"$name.pid")"
            cat "$name.pid"
            ;;
    esac
done
