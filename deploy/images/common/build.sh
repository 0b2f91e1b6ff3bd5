#!/usr/bin/env bash
# Build the image for developing software, on top of the base image.
# What may be set is told in docs/how-to/images.md; the defaults stand in the Dockerfile. Arguments go to `docker build`.
set -euo pipefail
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp -R "$(dirname "$0")/." "$context"
[[ -z ${CA_FILE-} ]] || cp "$CA_FILE" "$context/extra-ca.crt"
docker build \
  --build-arg BASE_IMAGE --build-arg PACKAGES --build-arg FINAL_USER \
  --build-arg INSTALL_PNPM --build-arg INSTALL_BUN --build-arg INSTALL_BREW --build-arg NPM_CONFIG_REGISTRY \
  --tag "${TARGET_IMAGE:-sandkeeper-sandbox-common:bookworm-slim}" "$@" "$context"
