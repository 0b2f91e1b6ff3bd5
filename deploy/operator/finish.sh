#!/bin/bash
# Make of a root file system with everything in it an image that starts fast: finish.sh FOLDER
set -euo pipefail
image=$1
packages=$image/usr/local/lib/python3.11/dist-packages
# Scripts of libraries, and a second client for the same API that nobody here uses.
rm -rf "$packages/bin" "$packages/kubernetes/aio"
find "$packages" -depth -type d -name tests -exec rm -rf {} +
# What only a debugger reads: of the event loop it is nine tenths.
strip --strip-unneeded "$packages"/uvloop/*.so

cat > "$image/usr/local/bin/sandkeeper" <<END
#!/usr/bin/python3.11 -I
from sandkeeper.cli import main
main(prog_name="sandkeeper")
END
chmod 755 "$image/usr/local/bin/sandkeeper"

# What Debian's modules are as programs is of no use here.
find "$image/usr/lib/python3.11" -name '*.py' -exec chmod 644 {} +
python3.11 /build/sbom.py "$image" > "$image/usr/share/sbom.cdx.json"

# Nothing can be compiled later, for the root is read-only. Nothing changes later either: no look at the sources is needed.
python3.11 -m compileall -q --invalidation-mode unchecked-hash -s "$image" -p / "$image/usr/lib/python3.11" "$packages"
# A client of a thousand generated models: nobody reads their sources here, and they are half of it.
client=$packages/kubernetes/client
find "$client" -depth -name __pycache__ -exec rm -rf {} +
python3.11 -m compileall -q -b --invalidation-mode unchecked-hash -s "$image" -p / "$client"
find "$client" -name '*.py' -delete
find "$image" -xdev -print0 | xargs -0 touch --no-dereference --date=@0

# Whatever the operator imports has to be there.
chroot "$image" /usr/local/bin/sandkeeper run --help > /dev/null
chroot "$image" /usr/bin/python3.11 -I -c 'import kubernetes.client, kubernetes.stream, sandkeeper.cli.punctual, uvloop'
