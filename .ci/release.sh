#!/usr/bin/env bash
# Makes the parts of a release, and checks them. `make release-check` and .github/workflows/release.yaml run it.
#
#   release.sh version TAG                 prints `version=VERSION`, if the tag, the crate and the charts have one version
#   release.sh binary FOLDER [BINARY]      hawsepipe-VERSION-TARGET.tar.gz, built for this machine, on Linux linked statically;
#                                          or of the program BINARY
#   release.sh charts FOLDER               both charts, packaged
#   release.sh image FILE NAME [ARG...]    the image NAME (`make image`) as an archive, and beside it the image's sbom.cdx.json
#   release.sh check FOLDER                tests what of these the folder has
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
target=
if command -v rustc >/dev/null; then target=$(rustc -vV | sed -n 's/^host: //p'); fi
readonly version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '==> %s\n' "$*"; }
fail() { printf 'release: %s\n' "$*" >&2 && exit 1; }

helm() {
    local program=.cache/helm/v4/helm
    [[ -x $program ]] || program=$(type -P helm) || fail "Helm is missing: run .ci/setup.sh helm"
    "$program" "$@"
}

print_version() {
    local chart
    [[ $1 == "v$version" ]] || fail "the tag is $1, but Cargo.toml has $version"
    for chart in charts/*/Chart.yaml; do
        [[ $(grep -cE "^(version|appVersion): $version$" "$chart") == 2 ]] || fail "$chart has another version than $version"
    done
    echo "version=$version"
}

make_binary() {
    local folder=$1 binary=${2:-} name=hawsepipe-$version-$target
    [[ -n $target ]] || fail "rustc is missing"
    if [[ -z $binary ]]; then
        # Kernels of arm64 have pages of 4 to 64 KiB, and the allocator takes the size of the machine that builds.
        [[ $target != aarch64-*linux* ]] || export JEMALLOC_SYS_WITH_LG_PAGE=16
        [[ $target != *linux* ]] || export RUSTFLAGS="-C target-feature=+crt-static"
        cargo build --profile dist --locked --bin hawsepipe --target "$target"
        binary=${CARGO_TARGET_DIR:-target}/$target/dist/hawsepipe
    fi
    mkdir -p "$folder" "$work/$name"
    cp "$binary" "$work/$name/hawsepipe"
    strip "$work/$name/hawsepipe"
    cp LICENSE README.md "$work/$name/"
    tar -C "$work" -czf "$folder/$name.tar.gz" "$name"
    say "$folder/$name.tar.gz"
}

make_charts() {
    mkdir -p "$1"
    helm package charts/hawsepipe-crds charts/hawsepipe --destination "$1"
}

make_image() {
    local archive=$1 name=$2 arguments builder=buildah
    shift 2
    printf -v arguments '%q ' "$@"
    mkdir -p "$(dirname "$archive")"
    if docker info >/dev/null 2>&1; then builder=docker; fi
    make -s image IMAGE="$name" ARGS="${*:+$arguments}"
    rm -f "$archive"
    if [[ $builder == docker ]]; then docker save "$name" -o "$archive"; else buildah push "$name" "docker-archive:$archive"; fi
    unpack_image "$archive"
    cp "$work/image/usr/share/doc/hawsepipe/sbom.cdx.json" "$(dirname "$archive")/sbom.cdx.json"
}

# Unpacks the layers of an image's archive into $work/image, and its settings into $work/config.json.
unpack_image() {
    local layer
    rm -rf "$work/archive" "$work/image"
    mkdir -p "$work/archive" "$work/image"
    tar -C "$work/archive" -xf "$1"
    cp "$work/archive/$(jq -r '.[0].Config' "$work/archive/manifest.json")" "$work/config.json"
    while read -r layer; do
        tar -C "$work/image" -xf "$work/archive/$layer" --no-same-owner
    done < <(jq -r '.[0].Layers[]' "$work/archive/manifest.json")
}

# Tests the program in an empty root folder, where nothing but /proc and the sources of random numbers is beside it, which
# every container has; elsewhere than on Linux, as it is.
check_binary() {
    local archive=$1 port=18099 root=$work/root gateway served=
    say "$archive"
    mkdir -p "$root/proc" "$root/tmp" "$root/demo" "$root/dev"
    tar -C "$work" -xzf "$archive"
    cp "$work"/hawsepipe-"$version"-*/hawsepipe "$root/hawsepipe"
    cat >"$root/demo/demo.yaml" <<'YAML'
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: files}
spec:
  external: {url: "http://127.0.0.1:9/mcp"}
YAML
    if [[ $(uname -s) != Linux ]]; then
        "$root/hawsepipe" validate --no-load "$root/demo"
        return
    fi
    local -a as_root=()
    (( EUID == 0 )) || as_root=(sudo -n)
    # The program is linked statically, so it does not find the C library's getrandom and reads these.
    "${as_root[@]}" mknod -m 444 "$root/dev/random" c 1 8
    "${as_root[@]}" mknod -m 444 "$root/dev/urandom" c 1 9
    local -a alone=("${as_root[@]}" unshare --fork --pid --kill-child --mount --root="$root" --mount-proc /hawsepipe)
    [[ $("${alone[@]}" --version) == *"$version"* ]] || fail "$archive: another version than $version"
    (( $("${alone[@]}" crds | grep -c '^kind: CustomResourceDefinition') == 7 )) || fail "$archive: not 7 definitions"
    "${alone[@]}" validate --no-load /demo
    "${alone[@]}" run -f /demo --state-dir /tmp/state --listen "127.0.0.1:$port" --admin 127.0.0.1:0 2>"$work/log" &
    gateway=$!
    for _ in {1..50}; do
        served=$(curl -fsS "http://127.0.0.1:$port/healthz" 2>/dev/null) && break
        sleep 0.2
    done
    # unshare ignores SIGTERM while its child runs.
    "${as_root[@]}" kill -KILL "$gateway"
    wait "$gateway" 2>/dev/null || true
    [[ $served == ok ]] || { cat "$work/log" >&2; fail "$archive: the gateway does not serve"; }
}

check_charts() {
    local folder=$1 chart
    for chart in hawsepipe-crds hawsepipe; do
        say "$folder/$chart-$version.tgz"
        helm lint --strict --quiet --kube-version 1.37.2 "$folder/$chart-$version.tgz"
        helm template release "$folder/$chart-$version.tgz" --kube-version 1.37.2 >"$work/$chart.yaml"
    done
    (( $(grep -c '^kind: CustomResourceDefinition' "$work/hawsepipe-crds.yaml") == 7 )) || fail "the chart has not 7 definitions"
    grep -q "image: \"hawsepipe:$version\"" "$work/hawsepipe.yaml" || fail "the chart names another image than hawsepipe:$version"
}

check_sbom() {
    say "$1"
    jq -e --arg version "$version" '.bomFormat == "CycloneDX" and .metadata.component.version == $version
        and ([.. | objects | .name? | strings] | contains(["tokio", "rustls", "node", "curate"]))' "$1" >/dev/null ||
        fail "$1: not a bill of materials of version $version with the crates, Node.js and the plugins"
}

check_image() {
    local file
    say "$1"
    unpack_image "$1"
    for file in usr/local/bin/{hawsepipe,hawsepipe-bridge,node} plugins/redact/index.mjs usr/share/doc/hawsepipe/LICENSE; do
        [[ -s $work/image/$file ]] || fail "$1: /$file is missing"
    done
    [[ ! -e $work/image/bin/sh && ! -e $work/image/plugins/sdk ]] || fail "$1: it has a shell or plugins/sdk"
    jq -e --arg version "$version" '.config | .User == "65532:65532" and
        .Labels["org.opencontainers.image.version"] == $version' "$work/config.json" >/dev/null ||
        fail "$1: its user is not 65532:65532, or its label is not of version $version"
    check_sbom "$work/image/usr/share/doc/hawsepipe/sbom.cdx.json"
}

check_all() {
    local file found=0
    shopt -s nullglob
    for file in "$1"/*; do
        case $file in
            *"-$target.tar.gz") check_binary "$file" ;;
            */hawsepipe-"$version".tgz) check_charts "$1" ;;
            *.cdx.json) check_sbom "$file" ;;
            */image.tar) check_image "$file" ;;
            *) continue ;;
        esac
        found=$((found + 1))
    done
    (( found > 0 )) || fail "$1 has nothing to check"
    say "$found parts are as they should be"
}

what=${1:?version, binary, charts, image or check}
shift
case $what in
    version) print_version "$@" ;;
    binary) make_binary "$@" ;;
    charts) make_charts "$@" ;;
    image) make_image "$@" ;;
    check) check_all "$@" ;;
    *) fail "no part $what" ;;
esac
