#!/usr/bin/env bash
# Build the image that sandboxes run unless a policy names another.
# What may be set is told in docs/how-to/images.md; the defaults stand in the Dockerfile. Arguments go to `docker build`.
set -euo pipefail
exec docker build \
  --build-arg BASE_IMAGE --build-arg PACKAGES --build-arg FINAL_USER \
  --tag "${TARGET_IMAGE:-sandkeeper-sandbox:bookworm-slim}" "$@" "$(dirname "$0")"
