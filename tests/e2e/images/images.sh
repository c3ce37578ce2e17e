#!/usr/bin/env bash
# Makes archives of the images of the end-to-end test, on a machine that reaches no registry of images. Needs root.
#
#   images.sh BINARY BRIDGE FOLDER   writes pause.tar, coredns.tar, hawsepipe.tar, everything.tar, stdio-musl.tar and
#                                    stdio-scratch.tar into the folder
#
# The project's image is made by `make image` from the project's Dockerfile, on bases that are made here:
#   BASE_IMAGE  the packages that distroless/cc-debian12 has, from Debian
#   NODE_IMAGE  Debian with Node.js from npm
#   RUST_IMAGE  Debian with stand-ins for cargo and rustc, which hand over BINARY, BRIDGE and the list of crates of
#               `make sbom`, made on this machine
set -euo pipefail
binary=$(realpath "${1:?the binary}")
bridge=$(realpath "${2:?the static bridge}")
archives=$(realpath -m "${3:?a folder for the archives}")
cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../../.. && pwd)
readonly binary bridge archives root
readonly work=$root/.cache/e2e/work node_major=24
# A storage of its own, which can be deleted as a whole; what a build caches is there too, in TMPDIR.
export CONTAINERS_STORAGE_CONF=$work/storage.conf TMPDIR=$work/tmp BUILDAH_ISOLATION=chroot

say() { printf '==> %s\n' "$*"; }

require_programs() {
    local program package
    local -a packages=()
    (( EUID == 0 )) || { echo "images are made as root: run it as root, for example with sudo" >&2; exit 1; }
    for program in buildah debootstrap dpkg-deb:dpkg cc:gcc go:golang musl-gcc:musl-tools npm; do
        package=${program#*:}
        command -v "${program%:*}" >/dev/null || packages+=("$package")
    done
    if (( ${#packages[@]} > 0 )); then
        echo "Missing: ${packages[*]}. Install with: apt-get install --no-install-recommends ${packages[*]}" >&2
        exit 1
    fi
}

# Makes an image NAME of the files in a folder, and removes the folder.
image_of() {
    local name=$1 folder=$2
    printf 'FROM scratch\nCOPY . /\n' | buildah build --quiet --tag "$name" -f - "$folder" >/dev/null
    rm -rf "$folder"
}

there() { buildah inspect --type image "$1" >/dev/null 2>&1; }

make_base() {
    local folder=$work/base package
    there localhost/base && return
    say "base image: packages of distroless/cc-debian12"
    rm -rf "$folder" && mkdir -p "$folder/packages"
    (cd "$folder/packages" && apt-get download --quiet base-files ca-certificates libc6 libgcc-s1 libstdc++6 netbase \
        tzdata >/dev/null)
    for package in "$folder"/packages/*.deb; do
        dpkg-deb --extract "$package" "$folder"
    done
    rm -rf "$folder/packages" "$folder"/usr/share/{doc,man,locale,lintian}
    mkdir -p "$folder/etc/ssl/certs" "$folder/tmp"
    chmod 1777 "$folder/tmp"
    cat "$folder"/usr/share/ca-certificates/mozilla/*.crt >"$folder/etc/ssl/certs/ca-certificates.crt"
    printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' \
        >"$folder/etc/passwd"
    printf 'root:x:0:\nnonroot:x:65532:\n' >"$folder/etc/group"
    image_of localhost/base "$folder"
}

make_node() {
    local folder=$work/node machine=x64
    there localhost/node && return
    [[ $(uname -m) != aarch64 ]] || machine=arm64
    say "Node image: node-linux-$machine $node_major from npm"
    rm -rf "$folder" && mkdir -p "$folder/usr/local/bin"
    npm install --prefix "$work/npm" --no-save --no-package-lock --ignore-scripts --silent \
        "node-linux-$machine@$node_major" >/dev/null
    cp "$work/npm/node_modules/node-linux-$machine/bin/node" "$folder/usr/local/bin/node"
    rm -rf "$work/npm"
    printf 'FROM localhost/debian\nCOPY . /\n' | buildah build --quiet --tag localhost/node -f - "$folder" >/dev/null
    rm -rf "$folder"
}

make_debian() {
    local folder=$work/debian
    there localhost/debian && return
    say "Debian, for the stage that builds"
    rm -rf "$folder"
    debootstrap --variant=minbase --include=binutils bookworm "$folder" >"$work/debootstrap.log" 2>&1 ||
        { tail -5 "$work/debootstrap.log" >&2; exit 1; }
    image_of localhost/debian "$folder"
}

# What the Dockerfile's stage `build` is made on: its cargo copies what was made on this machine.
make_rust() {
    local folder=$work/rust
    rm -rf "$folder" && mkdir -p "$folder"
    cp "$binary" "$folder/hawsepipe"
    cp "$bridge" "$folder/hawsepipe-bridge"
    cp "$root/.cache/crates.json" "$folder/crates.json"
    printf '#!/bin/sh\necho "host: here"\n' >"$folder/rustc"
    cat >"$folder/cargo" <<'EOF'
#!/bin/sh
case $1 in
    install) exit ;;
    cyclonedx) exec cp /built/crates.json . ;;
esac
mkdir -p target/dist target/here/bridge
cp /built/hawsepipe target/dist/hawsepipe
cp /built/hawsepipe-bridge target/here/bridge/hawsepipe-bridge
EOF
    chmod +x "$folder/cargo" "$folder/rustc"
    printf 'FROM localhost/debian\nCOPY hawsepipe hawsepipe-bridge crates.json /built/\nCOPY cargo rustc /usr/local/bin/\n' |
        buildah build --quiet --tag localhost/rust -f - "$folder" >/dev/null
    rm -rf "$folder"
}

# Writes an image as an archive, in which it has the name that Kubernetes asks for.
archive() {
    local image=$1 file=$2 name=$3
    rm -f "$archives/$file.new"
    buildah push --quiet "$image" "docker-archive:$archives/$file.new:$name"
    mv "$archives/$file.new" "$archives/$file"
}

make_hawsepipe() {
    say "hawsepipe image: make image"
    make -s -C "$root" image IMAGE=localhost/hawsepipe:e2e ARGS="--quiet --build-arg RUST_IMAGE=localhost/rust \
        --build-arg NODE_IMAGE=localhost/node --build-arg BASE_IMAGE=localhost/base"
    archive localhost/hawsepipe:e2e hawsepipe.tar docker.io/library/hawsepipe:e2e
}

make_pause() {
    [[ ! $archives/pause.tar -nt pause.c ]] || return 0
    mkdir -p "$work/pause"
    cc -static -Os -o "$work/pause/pause" pause.c
    printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' |
        buildah build --quiet --tag localhost/pause:3 -f - "$work/pause" >/dev/null
    archive localhost/pause:3 pause.tar localhost/pause:3
}

make_coredns() {
    local program=$root/.cache/e2e/bin/coredns
    [[ ! $archives/coredns.tar -nt $program ]] || return 0
    mkdir -p "$work/coredns"
    cp "$program" "$work/coredns/coredns"
    printf 'FROM scratch\nCOPY coredns /coredns\nENTRYPOINT ["/coredns"]\n' |
        buildah build --quiet --tag localhost/coredns:e2e -f - "$work/coredns" >/dev/null
    archive localhost/coredns:e2e coredns.tar localhost/coredns:e2e
}

# A public MCP server, over Streamable HTTP.
make_everything() {
    local servers=$root/manifests/quickstart/servers
    [[ ! $archives/everything.tar -nt $servers/package-lock.json ]] || return 0
    say "image of the MCP server: server-everything"
    cat <<'EOF' | buildah build --quiet --tag localhost/everything:e2e -f - "$servers" >/dev/null
FROM localhost/node AS node
FROM localhost/base
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY node_modules /server/node_modules
USER 65532:65532
ENTRYPOINT ["node", "/server/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"]
EOF
    archive localhost/everything:e2e everything.tar localhost/everything:e2e
}

# An MCP server on stdio, for an image that has musl alone, and for one that has no file besides it.
make_stdio() {
    local name server=$root/tests/e2e/server folder=$work/stdio
    [[ ! $archives/stdio-scratch.tar -nt $server/main.go || ! $archives/stdio-scratch.tar -nt $server/go.sum ]] || return 0
    say "images of the MCP servers on stdio"
    rm -rf "$folder" && mkdir -p "$folder/musl/lib" "$folder/scratch"
    (cd "$server" && CGO_ENABLED=0 go build -trimpath -o "$folder/scratch/server" .)
    (cd "$server" && CGO_ENABLED=1 CC=musl-gcc go build -trimpath -o "$folder/musl/server" .)
    # Debian's loader is a link to its library; images that are made for musl have one file of this name.
    cp -L /lib/ld-musl-*.so.1 "$folder/musl/lib/"
    for name in musl scratch; do
        image_of "localhost/stdio-$name:e2e" "$folder/$name"
        archive "localhost/stdio-$name:e2e" "stdio-$name.tar" "localhost/stdio-$name:e2e"
    done
    rm -rf "$folder"
}

require_programs
mkdir -p "$TMPDIR" "$archives"
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
make_pause
make_coredns
make_base
make_debian
make_node
make_rust
make_hawsepipe
make_everything
make_stdio
buildah rmi --prune --force >/dev/null
