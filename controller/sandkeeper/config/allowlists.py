"""Lists of what is allowed, as limits and ceilings have them: what is on them by its meaning, and how they are told."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sandkeeper.config.capabilities import ALL, DEFAULT, bare

__all__ = ["capabilities_kept", "is_image_listed", "is_user_listed", "shown"]

_TOLD: Final = 5


def is_image_listed(image: str, patterns: Iterable[str]) -> bool:
    """Say whether the image is one of the names, or begins like one that ends in ``*``. Compared as text."""
    return any(
        image.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else image == pattern
        for pattern in patterns
    )


def is_user_listed(user: str, listed: Collection[str]) -> bool:
    """Say whether every id of ``uid[:gid]`` is listed, as a number; ``auto`` is listed as such."""
    if user == "auto":
        return user in listed
    ids = {int(number) for number in listed if number != "auto"}
    return all(int(number) in ids for number in user.split(":"))


def capabilities_kept(dropped: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return what a container keeps of the capabilities that it is given, and is not allowed to."""
    no_matter = {bare(capability) for capability in (*dropped, *allowed)}
    return [] if ALL in no_matter else [name for name in DEFAULT if name not in no_matter]


def shown(listed: Sequence[str]) -> str:
    """Name what is on a list, or some of it: a message is not the place for everything."""
    more = len(listed) - _TOLD
    return (", ".join(listed[:_TOLD]) or "none") + (f", and {more} more" if more > 0 else "")
