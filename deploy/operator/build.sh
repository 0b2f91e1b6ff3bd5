#!/usr/bin/env bash
# Build the operator's image. TARGET_IMAGE names it; arguments go to `docker build`.
# BASE_IMAGE, PIP_INDEX_URL and CA_FILE say where Debian and the wheels come from, where that is not as usual.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$here"/{Dockerfile,system.sh,finish.sh,sbom.py} "$root/requirements/runtime.txt" "$context"
mkdir "$context/sandkeeper"
tar -C "$root/controller/sandkeeper" --exclude=__pycache__ --mtime=@0 -c . | tar -C "$context/sandkeeper" -x
[[ -z ${CA_FILE-} ]] || cp "$CA_FILE" "$context/extra-ca.crt"
docker build \
  --build-arg BASE_IMAGE --build-arg PIP_INDEX_URL \
  --tag "${TARGET_IMAGE:-sandkeeper-operator:latest}" "$@" "$context"
