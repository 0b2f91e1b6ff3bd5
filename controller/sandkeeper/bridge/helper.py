"""The program that does the work inside a sandbox, as the sandbox's own user.

It is sent along with each request and runs once. It needs Linux, Python 3.9, and no more of the standard library than
Debian's python3-minimal has. That has no ``json``: so the request is a Python literal, and the answer, made of numbers,
words of its own and names in hex, is one that only has to change its quotes to be JSON.

Code in the sandbox runs at the same time, as the same user, and may change every directory at every moment. So no path
is looked up as a whole. The way goes from the mount's root down one directory at a time, each opened below the one
before, none of them a link and all of them in the same mount; what is done is done below the last of them, by its name.
"""

from __future__ import annotations

import ast
import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from types import FrameType

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO that nobody writes to would block
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_BATCH = 1000
_DEEPEST = 256
"""Directories in each other that are removed at once; each takes an open file."""

_ESCAPES = (b"\\040", b"\\011", b"\\012", b"\\134")
"""How mountinfo writes a space, a tab, a newline and, to be undone last, a backslash."""

_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "directory"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)

Names = list[bytes]
Answer = tuple[dict[str, object], bytes]
"""What there is to say, and data."""


class Refusal(Exception):  # noqa: N818 - an answer
    """Something that is not done, whatever the operating system would say. The word for it is the answer."""


# --- the way down -----------------------------------------------------------------------------------------------------


class Mount:
    """One mount, open at its root."""

    def __init__(self, target: bytes, *, has_links: bool) -> None:
        """Go to where it should be, and make sure that it is there: a directory above may have been moved away."""
        self._target = target
        self._nofollow = 0 if has_links else os.O_NOFOLLOW
        self._root = os.open(b"/", _DIRECTORY)
        for name in filter(None, target.split(b"/")):
            self._root = _enter(self._root, name)
        self._id = _mount_id(self._root)
        if dict(_mount_points()).get(self._id) != target:
            raise Refusal("not-mounted")

    def directory(self, names: Names) -> int:
        """Open a directory by its names from the root down."""
        found = os.dup(self._root)
        for name in names:
            found = self.enter(found, name)
        return found

    def enter(self, parent: int, name: bytes) -> int:
        """Open a directory in another, which is closed."""
        return self._checked(_enter(parent, name))

    def file(self, parent: int, name: bytes) -> int:
        """Open a regular file that has no second name."""
        try:
            found = self._checked(os.open(name, _FILE | self._nofollow, dir_fd=parent))
        except OSError as error:
            raise _explained(error, parent, name) from error
        about = os.fstat(found)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        if not stat.S_ISREG(about.st_mode):
            raise Refusal("special")
        if about.st_nlink > 1:
            raise Refusal("hard-link")
        return found

    def about(self, names: Names) -> os.stat_result:
        """Look at something, whatever it is, without opening it."""
        if not names:
            return os.fstat(self._root)
        flags = os.O_PATH | os.O_CLOEXEC | self._nofollow
        return os.fstat(self._checked(os.open(names[-1], flags, dir_fd=self.directory(names[:-1]))))

    def about_entry(self, parent: int, name: bytes) -> os.stat_result:
        """Look at something in a directory that is listed. It may well be where another mount is."""
        return os.stat(name, dir_fd=parent, follow_symlinks=not self._nofollow)

    def check_nothing_below(self, names: Names) -> None:
        """Make sure that no mount is there or below: it would be moved along, or be in the way halfway through."""
        path = b"/".join([self._target.rstrip(b"/"), *names])
        if any(point == path or point.startswith(path + b"/") for _, point in _mount_points()):
            raise Refusal("other-mount")

    def _checked(self, found: int) -> int:
        if _mount_id(found) != self._id:
            raise Refusal("other-mount")
        return found


def _enter(parent: int, name: bytes) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _explained(error, parent, name) from error
    finally:
        os.close(parent)


def _explained(error: OSError, parent: int, name: bytes) -> Exception:
    """Tell a link, and what cannot be opened at all, from other errors."""
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except OSError:
        return error
    if stat.S_ISLNK(mode) and error.errno in (errno.ENOTDIR, errno.ELOOP):
        return Refusal("link")
    if error.errno == errno.ENXIO:  # a socket, or a device that is not there
        return Refusal("special")
    return error


def _mount_id(found: int) -> int:
    with open(f"/proc/self/fdinfo/{found}", "rb") as lines:
        for line in lines:
            if line.startswith(b"mnt_id:"):
                return int(line[7:])
    raise Refusal("no-mount-ids")


def _mount_points() -> Iterator[tuple[int, bytes]]:
    """Yield each mount's id, and where it is."""
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            words = line.split(b" ")
            point = words[4]
            for escape in _ESCAPES:
                point = point.replace(escape, bytes([int(escape[1:], 8)]))
            yield int(words[0]), point


# --- what can be asked for --------------------------------------------------------------------------------------------


def read(mount: Mount, names: Names, *, limit: int) -> Answer:
    """Return what is in a file."""
    found = mount.file(mount.directory(names[:-1]), names[-1])
    if os.fstat(found).st_size > limit:
        raise Refusal("too-large")
    data = bytearray()
    while chunk := os.read(found, min(_CHUNK, limit + 1 - len(data))):
        data += chunk
        if len(data) > limit:  # it grew
            raise Refusal("too-large")
    return {}, bytes(data)


def write(mount: Mount, names: Names, *, data: bytes) -> Answer:
    """Put a file where it should be, whole or not at all."""
    directory, name = mount.directory(names[:-1]), names[-1]
    mode = _mode_for(directory, name)
    # Whoever guesses this name and puts something else there could have put it at the other one as well.
    temporary = b".sandkeeper-" + os.urandom(8).hex().encode()
    new = os.open(temporary, _NEW_FILE, 0o600, dir_fd=directory)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(new, left) :]
        os.fchmod(new, mode)
        os.fsync(new)
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):  # what went wrong before is what is told
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)
    return {}, b""


def _mode_for(directory: int, name: bytes) -> int:
    """Return the mode of the file that is replaced, or the one that any program would give to a new file."""
    try:
        mode = os.lstat(name, dir_fd=directory).st_mode
    except FileNotFoundError:
        return 0o666 & ~os.umask(0)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    if stat.S_ISLNK(mode):
        raise Refusal("link")
    if not stat.S_ISREG(mode):
        raise Refusal("special")
    return mode & 0o777


def listdir(mount: Mount, names: Names, *, limit: int) -> Answer:
    """Tell what is in a directory."""
    directory = mount.directory(names)
    found: list[dict[str, object]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(found) == limit:
                raise Refusal("too-large")
            name = os.fsencode(entry.name)
            try:
                about = _told(mount.about_entry(directory, name))
            except FileNotFoundError:
                continue  # it went meanwhile
            found.append({"name": name.hex(), "about": about})
    return {"entries": found}, b""


def about(mount: Mount, names: Names) -> Answer:
    """Tell what something is. A link is a link."""
    return {"about": _told(mount.about(names))}, b""


def _told(about: os.stat_result) -> dict[str, object]:
    return {
        "kind": next((kind for is_kind, kind in _KINDS if is_kind(about.st_mode)), "device"),
        "size": about.st_size,
        "mode": stat.S_IMODE(about.st_mode),
        "links": about.st_nlink,
        "modified_ns": about.st_mtime_ns,
    }


def mkdir(mount: Mount, names: Names) -> Answer:
    """Make a directory."""
    _make(mount.directory(names[:-1]), names[-1])
    return {}, b""


def makedirs(mount: Mount, names: Names) -> Answer:
    """Make a directory and all that are missing above it; it may be there already."""
    directory = mount.directory([])
    for name in names:
        with suppress(FileExistsError):  # the next line finds out what it is
            _make(directory, name)
        directory = mount.enter(directory, name)
    return {}, b""


def _make(parent: int, name: bytes) -> None:
    os.mkdir(name, dir_fd=parent)
    os.fsync(parent)


def remove(mount: Mount, names: Names, *, recursive: bool) -> Answer:
    """Remove a file, a link or an empty directory; recursively, a directory and all that is in it."""
    directory, name = mount.directory(names[:-1]), names[-1]
    if not stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
        os.unlink(name, dir_fd=directory)
    else:
        if recursive:
            mount.check_nothing_below(names)
            _clear(mount, directory, name, depth=1)
        os.rmdir(name, dir_fd=directory)
    os.fsync(directory)
    return {}, b""


def _clear(mount: Mount, parent: int, name: bytes, *, depth: int) -> None:
    if depth > _DEEPEST:
        raise Refusal("too-deep")
    directory = mount.enter(os.dup(parent), name)
    try:
        while batch := _some_of(directory):
            for below, is_directory in batch:
                if is_directory:
                    _clear(mount, directory, below, depth=depth + 1)
                    os.rmdir(below, dir_fd=directory)
                else:
                    os.unlink(below, dir_fd=directory)
    finally:
        os.close(directory)


def _some_of(directory: int) -> list[tuple[bytes, bool]]:
    # Not all at once: the sandbox's memory is bounded, and a directory may hold any number.
    with os.scandir(directory) as entries:
        some = islice(entries, _BATCH)
        return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in some]


def rename(mount: Mount, names: Names, *, to: Names) -> Answer:
    """Move a file or a directory; a file that is in the way is replaced."""
    before, after = mount.directory(names[:-1]), mount.directory(to[:-1])
    if stat.S_ISDIR(os.lstat(names[-1], dir_fd=before).st_mode):
        mount.check_nothing_below(names)
    os.rename(names[-1], to[-1], src_dir_fd=before, dst_dir_fd=after)
    os.fsync(after)
    os.fsync(before)
    return {}, b""


_OPERATIONS: dict[str, Callable[..., Answer]] = {
    "read": read,
    "write": write,
    "listdir": listdir,
    "stat": about,
    "mkdir": mkdir,
    "makedirs": makedirs,
    "remove": remove,
    "rename": rename,
}


# --- one request ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer one request, from standard input to standard output."""
    try:
        said, data = _answer()
    except Refusal as refusal:
        said, data = {"refused": str(refusal)}, b""
    except OSError as error:
        said, data = {"errno": error.errno or 0}, b""
    signal.alarm(0)
    header = ascii(said).replace("'", '"').encode()
    sys.stdout.buffer.write(b"%d %d\n%s%s" % (len(header), len(data), header, data))
    sys.stdout.buffer.flush()


def _answer() -> Answer:
    source = sys.stdin.buffer
    request = ast.literal_eval(source.read(int(source.readline())).decode("ascii"))
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(request["seconds"])
    options, size = request["options"], request["size"]
    data = source.read(size)
    if len(data) != size:
        raise Refusal("cut-off")  # whoever asked is gone, and half a file is none
    if request["operation"] == "write":
        options["data"] = data
    mount = Mount(request["mount"], has_links=request["has_links"])
    return _OPERATIONS[request["operation"]](mount, request["names"], **options)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise Refusal("too-slow")


if __name__ == "__main__":
    main()
