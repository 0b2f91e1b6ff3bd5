#!/bin/bash
# Lay out a root file system of nothing but Debian packages that are installed here: system.sh FOLDER PACKAGE...
set -euo pipefail
image=$1; shift
mkdir -p "$image"/{etc,tmp,usr/{bin,lib,lib64,sbin,local/bin},var/lib/dpkg/status.d}
chmod 1777 "$image/tmp"
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$image/$name"; done

# Files only: folders come with them, and the links above stay links.
dpkg -L "$@" | sort -u | while read -r path; do [[ -d $path && ! -L $path || ! -e $path ]] || echo "$path"; done |
  grep -vE '^/(bin|lib|lib64|sbin)$|^/usr/share/(doc|man|info|lintian|locale|binfmts)/|^/usr/lib/mime/|^/etc/(update-motd|debian)' |
  tar --create --no-recursion --absolute-names --transform 's,^/,,S' --files-from - | tar --extract --directory "$image" --keep-directory-symlink
# Where scanners of images look for what is installed, one package a file.
for package; do dpkg-query --status "$package" > "$image/var/lib/dpkg/status.d/$package"; done
for package; do [[ ! -d /usr/share/doc/$package ]] || install -D -m 644 -t "$image/usr/share/doc/$package" "/usr/share/doc/$package/copyright" 2>/dev/null || true; done

# What needs a terminal, a database or a network of the last century, and what is there to write programs with.
library=$image/usr/lib/python3.11
rm -rf "$library"/{curses,dbm,idlelib,lib2to3,pydoc_data,sqlite3,tkinter,turtledemo,ensurepip,distutils,venv,turtle.py,turtledemo}
rm -f "$library"/lib-dynload/{_curses,_dbm,_sqlite3,nis,readline,_crypt,_testclinic,_xxtestfuzz,xx}*.so
rm -rf "$library"/config-3.11-* "$image"/usr/lib/*/gconv

cat > "$image/etc/passwd" <<END
root:x:0:0:root:/:/sbin/nologin
sandkeeper:x:65532:65532:sandkeeper:/:/sbin/nologin
END
printf 'root:x:0:\nsandkeeper:x:65532:\n' > "$image/etc/group"
printf 'hosts: files dns\n' > "$image/etc/nsswitch.conf"
