#!/usr/bin/env bash
# Lay out below one folder, as it is to lie below /, what Debian does not have. Runs in the Dockerfile.
#
# What cannot be had here, because its source does not answer or has nothing for this kind of machine, is left out with
# a message, which the image keeps in LEFT_OUT. What answers and is not what was pinned fails the build.
set -euo pipefail
context=$1 extras=$2

BREW_SOURCE=https://github.com/Homebrew/brew
BREW_VERSION=6.0.22
BREW_COMMIT=08e85c4e42f5d8f1ea17c36cb59cf61c2ccb26c3
LEFT_OUT=$extras/usr/local/share/sandkeeper/left-out

leave_out() {
  echo "$1 is left out: $2" | tee -a "$LEFT_OUT"
}

# need PROGRAM PACKAGES NAME
need() {
  if ! command -v "$1" >/dev/null; then
    echo "$3 is fetched with $1: add $2 to PACKAGES, or set INSTALL_${3^^}=0" >&2
    exit 1
  fi
}

# from_npm NAME: install what NAME's lock file pins, and run none of its scripts.
from_npm() {
  need npm "nodejs and npm" "$1"
  if ! npm view "$1" name --fetch-retries=1 --fetch-retry-mintimeout=1000 >/dev/null; then
    leave_out "$1" "npm cannot reach its registry"
    return 1
  fi
  mkdir -p "$extras/opt"
  cp -R "$context/$1" "$extras/opt/$1"
  npm ci --prefix "$extras/opt/$1" --ignore-scripts --no-audit --no-fund
}

install_pnpm() {
  from_npm pnpm || return 0
  ln -s ../../../opt/pnpm/node_modules/pnpm/bin/pnpm.cjs "$extras/usr/local/bin/pnpm"
}

install_bun() {
  from_npm bun || return 0
  local program
  program=$(cd "$extras/usr/local/bin" && echo ../../../opt/bun/node_modules/@oven/*/bin/bun)
  if [[ ! -x $extras/usr/local/bin/$program ]]; then
    leave_out bun "there is none for $(uname -m)"
    return
  fi
  ln -s "$program" "$extras/usr/local/bin/bun"
  ln -s bun "$extras/usr/local/bin/bunx"
}

install_brew() {
  local prefix=$extras/home/linuxbrew/.linuxbrew
  need git git brew
  if ! timeout 60 git ls-remote --exit-code "$BREW_SOURCE" "refs/tags/$BREW_VERSION" >/dev/null; then
    leave_out brew "$BREW_SOURCE cannot be reached"
    return
  fi
  git -c advice.detachedHead=false clone --depth 1 --branch "$BREW_VERSION" "$BREW_SOURCE" "$prefix/Homebrew"
  if [[ $(git -C "$prefix/Homebrew" rev-parse HEAD) != "$BREW_COMMIT" ]]; then
    echo "The tag $BREW_VERSION of $BREW_SOURCE is not $BREW_COMMIT" >&2
    exit 1
  fi
  mkdir "$prefix/bin"
  ln -s ../Homebrew/bin/brew "$prefix/bin/brew"
  # It installs into its own folder, and refuses to work as root.
  chown -R "$FINAL_USER" "$extras/home/linuxbrew"
}

if [[ -e $context/extra-ca.crt ]]; then
  export NODE_EXTRA_CA_CERTS=$context/extra-ca.crt GIT_SSL_CAINFO=$context/extra-ca.crt
fi
mkdir -p "$extras/usr/local/bin" "$(dirname "$LEFT_OUT")"
touch "$LEFT_OUT"
[[ $INSTALL_PNPM != 1 ]] || install_pnpm
[[ $INSTALL_BUN != 1 ]] || install_bun
[[ $INSTALL_BREW != 1 ]] || install_brew
