# The image of operator and gateways: `make image`. Each base is an argument, so that it can come from another registry.
ARG RUST_IMAGE=docker.io/library/rust:1.95-bookworm
ARG NODE_IMAGE=docker.io/library/node:24-bookworm-slim
# glibc, libstdc++, certificates, no shell. It must have the C library of the two above, or a newer one.
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY plugins/sdk/index.d.ts plugins/sdk/index.d.ts
# What was built stays on the machine that builds, for the next time.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin hawsepipe && \
    install -D --strip target/release/hawsepipe /image/usr/local/bin/hawsepipe
COPY plugins /image/plugins
RUN rm -r /image/plugins/sdk

FROM ${NODE_IMAGE} AS node

FROM ${BASE_IMAGE}
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /image /
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
