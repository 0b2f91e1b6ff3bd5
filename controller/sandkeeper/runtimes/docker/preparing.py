"""Makes the directories of a sandbox on the host, and fills them, before its container first starts.

All of it goes by descriptors from the root of the file system down, and no link is followed: where the links of a
policy's path lead was found out and checked before. The agent's own workspace is never made, filled or given away.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, Transient
from sandkeeper.config.mounts import LARGEST_SEED, SEEDED, SKILLS
from sandkeeper.inside import prepare
from sandkeeper.inside.mirror import Bounds, mirror
from sandkeeper.runtimes.docker.layout import WORKSPACE, Layout, user_ids
from sandkeeper.runtimes.docker.sources import reason_of

__all__ = ["Complaints", "discard", "fill", "refresh"]

_SKILLS_BOUNDS: Final = Bounds(entries=20_000, bytes=256 << 20, depth=32)

_PRIVATE: Final = 0o700
_SHOWN: Final = 0o755
_FILE: Final = 0o644
_WIPED: Final = ".sandkeeper-wiped-"
"""Before the names of workspaces that were wiped, and whose content is still to be removed."""


@dataclass(frozen=True, kw_only=True)
class Complaints:
    """What could not be copied, one sentence each, and why."""

    seeds: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


def fill(layout: Layout, *, wipe: bool) -> Complaints:
    """Make the directories, and copy what is missing. ``wipe``: the sandbox's own workspace begins afresh.

    Transient with SEEDING_FAILED where that does not work, Permanent where somebody has to tidy up first.
    """
    with _doing("The workspace cannot be prepared"), ExitStack() as opened:
        agent = opened.enter_context(_opened(layout.agent)) if layout.agent is not None else None
        if layout.root is None:
            if agent is not None:
                _make_places(agent, layout, owner=_owner_of(agent))
            return Complaints()
        own = opened.enter_context(_own_directory(layout.root, layout.name))
        if wipe:
            with suppress(FileNotFoundError):
                os.rename(WORKSPACE, f"{_WIPED}{os.urandom(8).hex()}", src_dir_fd=own, dst_dir_fd=own)
        workspace = opened.enter_context(_workspace(own, layout))
        _make_places(workspace, layout, owner=user_ids(layout.user))
        if agent is None:
            return Complaints()
        seeds = prepare.seed(
            agent, workspace, _seeded(layout), largest=LARGEST_SEED, owner=user_ids(layout.user)
        )
        return Complaints(seeds=tuple(seeds), skills=_mirror(layout, agent, own))


def refresh(layout: Layout) -> Complaints:
    """Bring the copy of the skills up to date, and look again which files could not be copied. Raises as fill does."""
    with _doing("The skills cannot be brought up to date"), ExitStack() as opened:
        agent = opened.enter_context(_opened(str(layout.agent)))
        own = opened.enter_context(_own_directory(str(layout.root), layout.name))
        workspace = opened.enter_context(_workspace(own, layout))
        seeds = prepare.unseeded(
            agent, workspace, _seeded(layout), largest=LARGEST_SEED, owner=user_ids(layout.user)
        )
        return Complaints(seeds=tuple(seeds), skills=_mirror(layout, agent, own))


def discard(layout: Layout) -> None:
    """Remove what is left of workspaces that were wiped, however long it takes."""
    with suppress(OSError), _own_directory(str(layout.root), layout.name) as own:
        for name in os.listdir(own):  # noqa: PTH208 - by its descriptor
            if name.startswith(_WIPED):
                with _directory(own, name) as wiped:
                    prepare.empty(wiped)
                os.rmdir(name, dir_fd=own)


# --- what is copied ---------------------------------------------------------------------------------------------------


def _seeded(layout: Layout) -> Sequence[str]:
    return SEEDED if layout.is_seeded else ()


def _mirror(layout: Layout, agent: int, own: int) -> tuple[str, ...]:
    if not layout.has_mirror:
        return ()
    with _directory(own, SKILLS, make=_SHOWN) as shown, ExitStack() as opened:
        try:
            skills = opened.enter_context(_directory(agent, SKILLS))
        except FileNotFoundError:
            prepare.empty(shown)  # an agent need not have any
            return ()
        except NotADirectoryError:
            return ("skills in the agent's workspace is a link or a file; make it a directory",)
        return tuple(mirror(skills, shown, bounds=_SKILLS_BOUNDS, reader=user_ids(layout.user)))


# --- directories ------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open a directory without following a link anywhere on the way."""
    with ExitStack() as opened:
        handle = os.open("/", prepare.DIRECTORY)
        opened.callback(os.close, handle)
        for name in PurePosixPath(path).parts[1:]:
            handle = opened.enter_context(_directory(handle, name))
        yield handle


@contextmanager
def _directory(parent: int, name: str, *, make: int | None = None) -> Iterator[int]:
    """Open a directory in another; ``make``: where nothing is there, make it with this mode."""
    is_new = False
    if make is not None:
        with suppress(FileExistsError):
            os.mkdir(name, _PRIVATE, dir_fd=parent)
            is_new = True
    handle = os.open(name, prepare.DIRECTORY, dir_fd=parent)
    try:
        if is_new and make is not None:
            os.fchmod(handle, make)  # whatever the umask is
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _own_directory(root: str, name: str) -> Iterator[int]:
    """Open the runtime's directory in the sandbox root. Nobody but us may enter it, or change what is in it."""
    with _opened(root) as parent, _directory(parent, name, make=_PRIVATE) as own:
        status = os.fstat(own)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & ~_PRIVATE:
            raise Permanent(
                Reason.SEEDING_FAILED,
                f"{root}/{name} is open to others than the operator, so anybody could have put anything there. Remove "
                "it, or give it to root with the mode 0700.",
            )
        yield own


@contextmanager
def _workspace(own: int, layout: Layout) -> Iterator[int]:
    """Open the sandbox's own workspace, and see to it that it belongs to the sandbox's user."""
    with _directory(own, WORKSPACE, make=_SHOWN) as workspace:
        owner = user_ids(layout.user)
        if _owner_of(workspace)[0] != owner[0]:
            os.fchown(workspace, *owner)
        yield workspace


def _owner_of(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_uid, status.st_gid


# --- places of mounts -------------------------------------------------------------------------------------------------


def _make_places(workspace: int, layout: Layout, *, owner: tuple[int, int]) -> None:
    for path, is_directory in layout.places.items():
        *parents, name = PurePosixPath(path).parts
        with ExitStack() as opened:
            parent = workspace
            for directory in parents:
                _make_place(parent, directory, path, owner=owner)
                parent = opened.enter_context(_directory(parent, directory))
            _make_place(parent, name, path, owner=owner, is_directory=is_directory)


def _make_place(
    parent: int, name: str, path: str, *, owner: tuple[int, int], is_directory: bool = True
) -> None:
    """Make a directory or an empty file if nothing is there; Permanent where something else is."""
    try:
        if is_directory:
            os.mkdir(name, _SHOWN, dir_fd=parent)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE, dir_fd=parent))
    except FileExistsError:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not (stat.S_ISDIR(mode) if is_directory else stat.S_ISREG(mode)):
            raise Permanent(
                Reason.SEEDING_FAILED,
                f"Something is to be mounted at {path} in the workspace, and {name} is no "
                f"{'directory' if is_directory else 'plain file'} there. Remove it, or ask for a fresh copy.",
            ) from None
    else:
        os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)


@contextmanager
def _doing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        raise Transient(Reason.SEEDING_FAILED, f"{what}: {where}{reason_of(error)}.") from error
