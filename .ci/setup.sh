#!/usr/bin/env bash
# Installs what the quickstart or the tests need, into the checkout only. Does nothing where it is there already.
#
#   setup.sh node            a Node of at least 20 in .cache/node, where the machine's is older or missing
#   setup.sh npm FOLDER...   the packages of the folders' lock files
#   setup.sh venv FILE...    .cache/venv with the packages of the requirements files
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly node_least=20 node_wanted=24
export PATH="$PWD/.cache/node/bin:$PATH"

say() { printf '==> %s\n' "$*"; }

# Says what lacks and how to get it, and ends.
lacks() {
    printf 'Missing: %s\nInstall it, for example with: %s\n' "$1" "$2" >&2
    exit 1
}

node_major() { node --version 2>/dev/null | sed -n 's/^v\([0-9]*\).*/\1/p'; }

# The npm package that holds Node for this machine.
node_package() {
    local system machine
    system=$(uname -s | tr '[:upper:]' '[:lower:]')
    machine=$(uname -m)
    case $machine in
        x86_64) machine=x64 ;;
        aarch64) machine=arm64 ;;
    esac
    echo "node-$system-$machine"
}

setup_node() {
    local major
    major=$(node_major)
    if (( ${major:-0} >= node_least )); then
        return
    fi
    if ! command -v npm >/dev/null; then
        lacks "Node.js $node_least or newer, with npm" "apt-get install nodejs npm"
    fi
    say "Node ${major:-(none)} is older than $node_least: installing $(node_package) $node_wanted into .cache/node"
    mkdir -p .cache/node
    npm install --prefix .cache/node --no-save --no-package-lock --ignore-scripts "$(node_package)@$node_wanted"
    mkdir -p .cache/node/bin
    ln -sf "../node_modules/$(node_package)/bin/node" .cache/node/bin/node
}

setup_npm() {
    local folder
    for folder in "$@"; do
        if [[ $folder/node_modules/.package-lock.json -nt $folder/package-lock.json ]]; then
            continue
        fi
        command -v npm >/dev/null || lacks npm "apt-get install npm"
        say "npm ci in $folder"
        npm ci --prefix "$folder" --no-audit --no-fund
        touch "$folder/node_modules/.package-lock.json"
    done
}

setup_venv() {
    local file stamp=.cache/venv/.installed
    command -v python3 >/dev/null || lacks "Python 3" "apt-get install python3 python3-venv"
    if [[ ! -x .cache/venv/bin/python ]]; then
        say "Python environment in .cache/venv"
        mkdir -p .cache
        python3 -m venv .cache/venv || lacks "Python's venv" "apt-get install python3-venv"
    fi
    for file in "$@"; do
        if [[ $stamp -nt $file ]] && grep -qxF "$file" "$stamp"; then
            continue
        fi
        say "pip install -r $file"
        .cache/venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$file"
        grep -qxF "$file" "$stamp" 2>/dev/null || echo "$file" >>"$stamp"
        touch "$stamp"
    done
}

what=${1:?node, npm or venv}
shift
case $what in
    node) setup_node ;;
    npm) setup_npm "$@" ;;
    venv) setup_venv "$@" ;;
    *) echo "setup.sh: no part $what" >&2 && exit 2 ;;
esac
