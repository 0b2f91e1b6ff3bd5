"""Prepares a workspace before its sandbox first starts.

On the host of a Docker engine the operator calls :func:`seed` and :func:`empty`. A Pod's volumes are at hand in the Pod
alone, so there the text of this file is what its init container runs (see :func:`main`).

Everything goes by descriptors of directories, for on both sides code that nobody reviewed may have been at work, and
may be still: a name that is a link is never followed, what is read has to be a plain file with one name, and what is
written appears under its name as a whole or not at all.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import pathlib
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

__all__ = [
    "DIRECTORY",
    "LeftOut",
    "check_file",
    "copy",
    "empty",
    "is_allowed",
    "main",
    "new_name",
    "open_file",
    "seed",
    "unseeded",
    "why",
]

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened: one that is a link is none."""

_AS_A_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened that nobody needs to be able to list."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems say that have none."""
_CHUNK = 1 << 20
_READ, _ENTER = 4, 5
"""Bits of a mode, of any of its three groups."""
_LONGEST_MESSAGE = 4096
"""Bytes that Kubernetes keeps of what a container says of its end."""
_TERMINATION_LOG = "/dev/termination-log"
_SKILLS = "skills"
_LOST_AND_FOUND = "lost+found"


class LeftOut(Exception):  # noqa: N818 - it is told, and nothing fails for it
    """Something is not copied; the text says why."""


def seed(
    source: int,
    target: int,
    names: Iterable[str],
    *,
    largest: int,
    owner: tuple[int, int] | None = None,
    follow_links: bool = False,
) -> list[str]:
    """Copy each of the names that is at the source and not at the target; return why any was not copied.

    ``largest``: bytes of one file. ``owner``: the uid and gid that a copy gets, and that has to be able to read the
    original. ``follow_links``: the source is a ConfigMap's volume, whose files are links that Kubernetes made.
    """

    def copy_if_missing(name: str) -> None:
        if not _is_there(target, name):
            _seed_one(source, target, name, largest=largest, owner=owner, follow_links=follow_links)

    return _complaints(names, copy_if_missing)


def unseeded(
    source: int, target: int, names: Iterable[str], *, largest: int, owner: tuple[int, int] | None = None
) -> list[str]:
    """Return what :func:`seed` would complain of, and copy nothing: what is gone by now was removed by somebody."""

    def look_if_missing(name: str) -> None:
        if not _is_there(target, name):
            with contextlib.suppress(FileNotFoundError):
                original = open_file(source, name, reader=owner)
                try:
                    _check_size(os.fstat(original).st_size, largest)
                finally:
                    os.close(original)

    return _complaints(names, look_if_missing)


def empty(directory: int) -> None:
    """Remove all that is in a directory, however deep; OSError (EBUSY) where something is mounted in it.

    Directories are moved up before they are emptied in turn, so that no depth is too great. And each gets a new name
    first, which the kernel refuses to what is a place of a mount, even of the same file system.
    """
    while names := [name for name in os.listdir(directory) if not _is_the_systems(directory, name)]:
        for name in names:
            if not _unlink(directory, name):
                _remove_directory(directory, name)


# --- files ------------------------------------------------------------------------------------------------------------


def open_file(
    directory: int, name: str, *, reader: tuple[int, int] | None = None, follow_links: bool = False
) -> int:
    """Open a plain file to read it. LeftOut: it is none, has other names too, or ``reader`` could not read it."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    if not follow_links and stat.S_ISLNK(_lstat(directory, name).st_mode):
        raise LeftOut("it is a link")
    handle = os.open(name, flags, dir_fd=directory)
    try:
        check_file(os.fstat(handle), reader)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_file(status: os.stat_result, reader: tuple[int, int] | None) -> None:
    """Raise LeftOut where a file is none that may be copied: see :func:`open_file`."""
    if not stat.S_ISREG(status.st_mode):
        raise LeftOut("it is a link" if stat.S_ISLNK(status.st_mode) else "it is no plain file")
    if status.st_nlink != 1:
        raise LeftOut("it is a hard link: the same file has another name, which may be anywhere")
    if not is_allowed(status, reader):
        raise LeftOut("the sandbox's user may not read it")


def is_allowed(status: os.stat_result, user: tuple[int, int] | None) -> bool:
    """Whether the user may read it, or enter a directory, going by owner, group and mode.

    We may be root. Whoever can write where a file lies can move one there that they may not read themselves.
    """
    if user is None or user[0] == 0:
        return True
    shift = 6 if user[0] == status.st_uid else 3 if user[1] == status.st_gid else 0
    wanted = _ENTER if stat.S_ISDIR(status.st_mode) else _READ
    return status.st_mode >> shift & wanted == wanted


def copy(source: int, directory: int, *, most: int, finish: Callable[[int], None]) -> str:
    """Copy an open file into a new one with a name of ours, and return that.

    ``finish`` gets the new file before it is closed. LeftOut: there are more than ``most`` bytes.
    """
    name = new_name()
    handle = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - by its descriptor
            file.writelines(_read(source, most))
            file.flush()
            finish(handle)
    except BaseException:
        _unlink(directory, name)
        raise
    return name


def new_name() -> str:
    """Return a name that nothing has."""
    return f".sandkeeper-{os.urandom(8).hex()}"


def why(error: Exception) -> str:
    """Return in a few words what went wrong."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error)


def _complaints(names: Iterable[str], deal_with: Callable[[str], None]) -> list[str]:
    complaints = []
    for name in names:
        try:
            deal_with(name)
        except (LeftOut, OSError) as error:
            complaints.append(f"{name} is not copied: {why(error)}")
    return complaints


def _seed_one(
    source: int,
    target: int,
    name: str,
    *,
    largest: int,
    owner: tuple[int, int] | None,
    follow_links: bool,
) -> None:
    try:
        original = open_file(source, name, reader=owner, follow_links=follow_links)
    except FileNotFoundError:
        return  # an agent need not have each of them

    def finish(made: int) -> None:
        if owner is not None:
            os.fchown(made, *owner)
        with contextlib.suppress(PermissionError):  # a file system without modes
            os.fchmod(made, stat.S_IMODE(os.fstat(original).st_mode) & 0o777)
        # Or a crash of the machine might leave it empty; and what is there is never copied again.
        os.fsync(made)

    try:
        mine = copy(original, target, most=largest, finish=finish)
    finally:
        os.close(original)
    try:
        _publish(target, mine, name)
    finally:
        _unlink(target, mine)


def _publish(directory: int, mine: str, name: str) -> None:
    """Give a finished file its name, unless something has that by now."""
    with contextlib.suppress(FileExistsError):
        try:
            os.link(mine, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # The name is taken first, which nobody else can any more, and what takes it is replaced.
            os.close(os.open(name, _NEW_FILE, 0o600, dir_fd=directory))
            os.rename(mine, name, src_dir_fd=directory, dst_dir_fd=directory)


def _read(source: int, most: int) -> Iterator[bytes]:
    """Read an open file, which may grow meanwhile."""
    size = 0
    while chunk := os.read(source, _CHUNK):
        size += len(chunk)
        _check_size(size, most)
        yield chunk


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise LeftOut(f"it has more than {most} bytes")


def _is_there(directory: int, name: str) -> bool:
    try:
        _lstat(directory, name)
    except FileNotFoundError:
        return False
    return True


def _lstat(directory: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=directory, follow_symlinks=False)


# --- removal ----------------------------------------------------------------------------------------------------------


def _unlink(directory: int, name: str) -> bool:
    """Remove what is no directory, or is gone already; False: it is one."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass
    return True


def _is_the_systems(directory: int, name: str) -> bool:
    """Whether it is what the root of a file system has by nature, which none but root may look into."""
    return name == _LOST_AND_FOUND and _lstat(directory, name).st_uid == 0 != os.geteuid()


def _remove_directory(directory: int, name: str) -> None:
    """Remove a directory, but move the directories in it up, to be removed in turn."""
    with contextlib.suppress(FileNotFoundError):  # somebody else is at it, too
        mine = _take(directory, name)
        inner = os.open(mine, DIRECTORY, dir_fd=directory)
        try:
            for child in os.listdir(inner):  # noqa: PTH208 - by its descriptor
                if not _unlink(inner, child):
                    os.rename(_take(inner, child), new_name(), src_dir_fd=inner, dst_dir_fd=directory)
        finally:
            os.close(inner)
        os.rmdir(mine, dir_fd=directory)


def _take(directory: int, name: str) -> str:
    """Give a directory a name of ours and us the right to change it; OSError (EBUSY): something is mounted there."""
    mine = new_name()
    os.rename(name, mine, src_dir_fd=directory, dst_dir_fd=directory)
    handle = os.open(mine, _AS_A_PLACE, dir_fd=directory)
    try:
        # Unlike a descriptor to read from, this one can be had whatever the mode is. What is not ours may still be
        # empty, such as a place for a mount, which root made.
        with contextlib.suppress(PermissionError):
            pathlib.Path(f"/proc/self/fd/{handle}").chmod(0o700)
    finally:
        os.close(handle)
    return mine


# --- as a program -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Prepare a workspace as the one argument says; return 1 where it cannot be used, else 0.

    The argument is JSON, each key of it optional. ``target``: the workspace. ``wipe``: it is emptied first.
    ``directories``: what has to be a real directory in it, and is made if nothing is there. ``skills_in``: where
    `skills`, if they are there, have to be one as well. ``source``: what is copied from. ``names``, ``largest`` and
    ``follow_links``: see :func:`seed`.

    What is wrong is a list of sentences, as JSON, where Kubernetes looks for it.
    """
    try:
        complaints, code = _prepare(_read_json(arguments[0])), 0
    except LeftOut as error:
        complaints, code = [str(error)], 1
    _tell(complaints)
    return code


def _prepare(order: dict[str, Any]) -> list[str]:
    with contextlib.ExitStack() as opened:
        if "skills_in" in order:
            with _doing("the agent's workspace cannot be opened"):
                agent = opened.enter_context(_opened(order["skills_in"]))
            _check_directory(agent, _SKILLS, "the agent's workspace")
        if "target" not in order:
            return []
        with _doing("the workspace cannot be opened"):
            target = opened.enter_context(_opened(order["target"]))
        if order.get("wipe"):
            with _doing("the workspace cannot be emptied"):
                empty(target)
        for path in order.get("directories", ()):
            _make_directories(target, path)
        if "source" not in order:
            return []
        try:
            source = opened.enter_context(_opened(order["source"]))
        except OSError as error:
            return [f"nothing is copied, the agent's workspace cannot be opened: {why(error)}"]
        follow_links = order.get("follow_links", False)
        return seed(source, target, order["names"], largest=order["largest"], follow_links=follow_links)


def _make_directories(directory: int, path: str) -> None:
    """Make the directories of a path where there are none; LeftOut: one of them is something else."""
    with contextlib.ExitStack() as opened:
        for name in pathlib.PurePosixPath(path).parts:
            # Where we may not, the container's runtime may: it is a place of a mount.
            with contextlib.suppress(OSError):
                os.mkdir(name, dir_fd=directory)
            if not _is_there(directory, name):
                return
            _check_directory(directory, name, "the workspace")
            with _doing(f"{name} in the workspace cannot be opened"):
                directory = os.open(name, _AS_A_PLACE, dir_fd=directory)
            opened.callback(os.close, directory)


def _check_directory(directory: int, name: str, where: str) -> None:
    if _is_there(directory, name) and not stat.S_ISDIR(_lstat(directory, name).st_mode):
        raise LeftOut(f"{name} in {where} is a link or a file; make it a directory")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _doing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LeftOut(f"{what}: {why(error)}") from error


def _tell(complaints: list[str]) -> None:
    told = _write_json(complaints)
    while len(told) > _LONGEST_MESSAGE:
        complaints = [*complaints[:-2], "and more"]
        told = _write_json(complaints)
    sys.stderr.write(told)
    with contextlib.suppress(OSError), open(_TERMINATION_LOG, "w", encoding="ascii") as log:  # noqa: PTH123
        log.write(told)


# The smallest Pythons (Debian's python3-minimal) have no module for JSON. But for three words it is Python.


class _JsonWords(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        word = {"true": True, "false": False, "null": None}[node.id]
        return ast.copy_location(ast.Constant(word), node)


def _read_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = ast.literal_eval(_JsonWords().visit(ast.parse(text, mode="eval")))
    return found


def _write_json(sentences: list[str]) -> str:
    plain = (ascii(sentence)[1:-1].replace("\\", "\\\\").replace('"', '\\"') for sentence in sentences)
    return "[" + ", ".join(f'"{sentence}"' for sentence in plain) + "]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
