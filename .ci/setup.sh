#!/usr/bin/env bash
# Installs what the quickstart or the tests need, into the checkout; what is slow to build, into the user's cache.
# Does nothing where it is there already.
#
#   setup.sh node            a Node of at least 20 in .cache/node, where the machine's is older or missing
#   setup.sh node-suite      a Node of at least 22 in .cache/node-suite, where the machine's is older or missing
#   setup.sh npm FOLDER...   the packages of the folders' lock files
#   setup.sh venv FILE...    .cache/venv with the packages of the requirements files
#   setup.sh k8s             .cache/k8s/bin with a Kubernetes control plane, where no other is named
#   setup.sh exchange        .cache/exchange, the authorization server of tests/fixtures/exchange
#   setup.sh e2e             .cache/e2e/bin with all programs of a Kubernetes node, and CoreDNS
#   setup.sh helm            .cache/helm/v3 and .cache/helm/v4, each with a Helm of that version
#   setup.sh kwok            .cache/kwok with kwok, which simulates nodes, and what it does to them
#   setup.sh actionlint      .cache/actionlint with the program that checks workflows of GitHub Actions
#   setup.sh prometheus      .cache/prometheus with Prometheus and its promtool
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly node_least=20 node_wanted=24
# What the conformance suite of MCP needs.
readonly node_suite_least=22
# People use either.
readonly helm_versions=(v3.22.0 v4.3.1)
# The Go module of Prometheus 3.16.0.
readonly prometheus_version=v0.316.0
readonly kwok_version=v0.8.0
readonly actionlint_version=v1.7.12
readonly cached=${XDG_CACHE_HOME:-$HOME/.cache}/hawsepipe
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

# A Node in the folder, where the one that is found first is older than the version.
setup_node() {
    local folder=$1 least=$2 major
    major=$(node_major)
    if (( ${major:-0} >= least )) || [[ -x $folder/bin/node ]]; then
        return
    fi
    if ! command -v npm >/dev/null; then
        lacks "Node.js $least or newer, with npm" "apt-get install nodejs npm"
    fi
    say "Node ${major:-(none)} is older than $least: installing $(node_package) $node_wanted into $folder"
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-save --no-package-lock --ignore-scripts "$(node_package)@$node_wanted"
    mkdir -p "$folder/bin"
    ln -sf "../node_modules/$(node_package)/bin/node" "$folder/bin/node"
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

# Since 1.21 Go fetches the version by itself that a module asks for.
go_is_there() { go version 2>/dev/null | grep -qE 'go1\.(2[1-9]|[3-9][0-9])'; }

# The version of Kubernetes in a Go module.
k8s_version() { sed -n 's|.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$1/go.mod"; }

# Builds the programs named, of the versions that the Go module says, into the folder. Two checkouts may do it at once.
build_k8s() {
    local module=$1 folder=$2 version minor name package
    shift 2
    version=$(k8s_version "$module")
    minor=${version#v1.}
    local -a versions=(-X k8s.io/component-base/version.gitVersion="$version"
        -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor="${minor%%.*}")
    for name in "$@"; do
        package=k8s.io/kubernetes/cmd/$name
        [[ $name != etcd ]] || package=go.etcd.io/etcd/server/v3
        say "go build $name (Kubernetes $version; a first build of all takes some minutes)"
        CGO_ENABLED=0 nice -n 10 go build -C "$module" -mod=readonly -trimpath \
            -ldflags "-s -w ${versions[*]}" -o "$folder/$name.$$" "$package"
        mv "$folder/$name.$$" "$folder/$name"
    done
}

# The tests take each program from KUBEBUILDER_ASSETS, then from .cache/k8s/bin; from neither with KUBECONFIG_TEST.
setup_k8s() {
    local folder name
    local -a missing=()
    if [[ -n ${KUBECONFIG_TEST:-} ]]; then
        command -v kubectl >/dev/null || lacks kubectl "https://kubernetes.io/docs/tasks/tools"
        return
    fi
    folder=$cached/k8s/$(k8s_version tests/cluster/control-plane)/bin
    mkdir -p "$folder" .cache/k8s
    ln -sfn "$folder" .cache/k8s/bin
    for name in etcd kube-apiserver kube-controller-manager kubectl; do
        [[ -x ${KUBEBUILDER_ASSETS:-$folder}/$name || -x $folder/$name ]] || missing+=("$name")
    done
    if (( ${#missing[@]} == 0 )); then
        return
    fi
    if ! go_is_there; then
        lacks "Go 1.21 or newer, to build ${missing[*]} (or a throw-away cluster in KUBECONFIG_TEST, or a folder with \
these programs in KUBEBUILDER_ASSETS)" "the archive from https://go.dev/dl"
    fi
    build_k8s tests/cluster/control-plane "$folder" "${missing[@]}"
}

setup_exchange() {
    local module=tests/fixtures/exchange program=.cache/exchange
    if [[ -x $program && ! $module/main.go -nt $program && ! $module/go.sum -nt $program ]]; then
        return
    fi
    go_is_there || lacks "Go 1.21 or newer, to build $module" "the archive from https://go.dev/dl"
    say "go build $module"
    mkdir -p .cache
    CGO_ENABLED=0 nice -n 10 go build -C "$module" -mod=readonly -trimpath -ldflags "-s -w" -o "$PWD/$program" .
}

setup_e2e() {
    local folder name coredns
    local -a missing=()
    folder=$cached/e2e/$(k8s_version tests/e2e/kubernetes)
    mkdir -p "$folder" .cache/e2e
    ln -sfn "$folder" .cache/e2e/bin
    coredns=$folder/coredns
    for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
        [[ -x $folder/$name ]] || missing+=("$name")
    done
    if (( ${#missing[@]} == 0 )) && [[ -x $coredns && ! tests/e2e/dns/go.sum -nt $coredns ]]; then
        return
    fi
    go_is_there || lacks "Go 1.21 or newer, to build Kubernetes and CoreDNS" "the archive from https://go.dev/dl"
    build_k8s tests/e2e/kubernetes "$folder" "${missing[@]}"
    say "go build coredns (a first build takes some minutes)"
    CGO_ENABLED=0 nice -n 10 go build -C tests/e2e/dns -mod=readonly -trimpath -ldflags "-s -w" -o "$coredns.$$" .
    mv "$coredns.$$" "$coredns"
}

setup_helm() {
    local version major folder
    mkdir -p .cache/helm
    for version in "${helm_versions[@]}"; do
        major=${version%%.*}
        folder=$cached/helm/$version
        ln -sfn "$folder" ".cache/helm/$major"
        if [[ -x $folder/helm ]]; then
            continue
        fi
        go_is_there || lacks "Go 1.21 or newer, to build Helm" "the archive from https://go.dev/dl"
        say "go install helm $version (a first build takes a minute or two)"
        # Two checkouts may do it at once.
        CGO_ENABLED=0 GOBIN="$folder/$$" nice -n 10 go install -trimpath -ldflags "-s -w" \
            "helm.sh/helm/$major/cmd/helm@$version"
        mv "$folder/$$/helm" "$folder/helm"
        rmdir "$folder/$$"
    done
}

setup_prometheus() {
    local name folder=$cached/prometheus/$prometheus_version
    mkdir -p .cache
    ln -sfn "$folder" .cache/prometheus
    for name in promtool prometheus; do
        if [[ -x $folder/$name ]]; then
            continue
        fi
        go_is_there || lacks "Go 1.21 or newer, to build Prometheus" "the archive from https://go.dev/dl"
        say "go install $name $prometheus_version (a first build takes some minutes)"
        # Two checkouts may do it at once. What finds targets in clouds is left out: it would take most of the time.
        CGO_ENABLED=0 GOBIN="$folder/$$" nice -n 10 go install -trimpath -tags remove_all_sd -ldflags "-s -w" \
            "github.com/prometheus/prometheus/cmd/$name@$prometheus_version"
        mv "$folder/$$/$name" "$folder/$name"
        rmdir "$folder/$$"
    done
}

setup_actionlint() {
    local folder=$cached/actionlint/$actionlint_version
    mkdir -p .cache
    ln -sfn "$folder" .cache/actionlint
    if [[ -x $folder/actionlint ]]; then
        return
    fi
    go_is_there || lacks "Go 1.21 or newer, to build actionlint" "the archive from https://go.dev/dl"
    say "go install actionlint $actionlint_version"
    CGO_ENABLED=0 GOBIN="$folder/$$" nice -n 10 go install -trimpath -ldflags "-s -w" \
        "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version"
    mv "$folder/$$/actionlint" "$folder/actionlint"
    rmdir "$folder/$$"
}

setup_kwok() {
    local file module folder=$cached/kwok/$kwok_version
    mkdir -p .cache
    ln -sfn "$folder" .cache/kwok
    # The stages are written last.
    if [[ -f $folder/stages.yaml ]]; then
        return
    fi
    go_is_there || lacks "Go 1.21 or newer, to build kwok" "the archive from https://go.dev/dl"
    say "go install kwok $kwok_version (a first build takes some minutes)"
    # Two checkouts may do it at once.
    CGO_ENABLED=0 GOBIN="$folder/$$" nice -n 10 go install -trimpath -ldflags "-s -w" \
        "sigs.k8s.io/kwok/cmd/kwok@$kwok_version"
    # What happens to nodes and pods is not in the program, but in files beside it.
    module=$(go env GOMODCACHE)/sigs.k8s.io/kwok@$kwok_version/kustomize/stage
    for file in "$module"/{node,pod}/fast/*.yaml "$module"/node/heartbeat-with-lease/*.yaml; do
        [[ $file == */kustomization.yaml ]] || { cat "$file" && echo "---"; }
    done >"$folder/$$/stages.yaml"
    mv "$folder/$$/kwok" "$folder/kwok"
    mv "$folder/$$/stages.yaml" "$folder/stages.yaml"
    rmdir "$folder/$$"
}

what=${1:?node, node-suite, npm, venv, k8s, exchange, e2e, helm, actionlint, kwok or prometheus}
shift
case $what in
    node) setup_node .cache/node "$node_least" ;;
    node-suite) setup_node .cache/node-suite "$node_suite_least" ;;
    npm) setup_npm "$@" ;;
    venv) setup_venv "$@" ;;
    k8s) setup_k8s ;;
    exchange) setup_exchange ;;
    e2e) setup_e2e ;;
    helm) setup_helm ;;
    actionlint) setup_actionlint ;;
    kwok) setup_kwok ;;
    prometheus) setup_prometheus ;;
    *) echo "setup.sh: no part $what" >&2 && exit 2 ;;
esac
