# The image of operator and gateways: `make image`. Each base is an argument, so that it can come from another registry.
ARG RUST_IMAGE=docker.io/library/rust:1.95-bookworm
ARG NODE_IMAGE=docker.io/library/node:24-bookworm-slim
# glibc, libstdc++, certificates, no shell. It must have the C library of the two above, or a newer one.
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot
# Lists the crates for the software bill of materials.
ARG CYCLONEDX_VERSION=0.5.9

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY .cargo/config.toml .cargo/config.toml
COPY src src
COPY plugins/sdk/index.d.ts plugins/sdk/index.d.ts
# What was built stays on the machine that builds, for the next time. The allocator takes the size of pages from the machine that
# builds: kernels of arm64 have pages of 4 to 64 KiB, and it runs where they are smaller than it was built for.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    if [ "$(uname -m)" = aarch64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi && \
    cargo build --profile dist --locked --bin hawsepipe && \
    install -D --strip target/dist/hawsepipe /image/usr/local/bin/hawsepipe
# The bridge runs in images of MCP servers, which may have another C library or none.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    target=$(rustc -vV | sed -n 's/^host: //p') && \
    RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile bridge --locked --no-default-features \
        --bin hawsepipe-bridge --target "$target" && \
    install -D "target/$target/bridge/hawsepipe-bridge" /image/usr/local/bin/hawsepipe-bridge
COPY plugins /image/plugins
RUN rm -r /image/plugins/sdk
ARG CYCLONEDX_VERSION
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        cargo install --locked cargo-cyclonedx@${CYCLONEDX_VERSION} && \
    cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename crates

FROM ${NODE_IMAGE} AS node
COPY .ci/sbom.mjs /sbom/
COPY --from=build /src/crates.json /sbom/
COPY --from=build /image/plugins /sbom/plugins
RUN node /sbom/sbom.mjs /sbom/crates.json /sbom/plugins > /sbom/sbom.cdx.json

FROM ${BASE_IMAGE}
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /image /
COPY --from=node /sbom/sbom.cdx.json /usr/share/doc/hawsepipe/sbom.cdx.json
COPY LICENSE /usr/share/doc/hawsepipe/LICENSE
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title=hawsepipe \
      org.opencontainers.image.description="MCP gateway that runs your own JavaScript on every tool call, and its operator" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION} \
      org.opencontainers.image.source=${SOURCE}
# It writes only to what is mounted: a gateway to its --state-dir and to /tmp, the operator to nothing.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/hawsepipe"]
