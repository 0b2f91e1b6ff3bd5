"""What an engine's error means to the person who reads the condition."""

from collections.abc import Iterator

from docker.errors import APIError, DockerException, NotFound

from sandkeeper.api.conditions import Reason
from sandkeeper.api.errors import Permanent, SandkeeperError, Transient

__all__ = [
    "explain",
    "image_missing",
    "is_answer",
    "is_conflict",
    "is_gone",
    "is_source_missing",
    "of_create",
    "of_start",
    "was_never_sent",
    "why_unreachable",
]

_LONGEST = 1024
_CONFLICT = 409
_BAD_REQUEST = 400
_SHUTTING_DOWN = 503


def explain(error: APIError) -> str:
    """Return what the engine said, at a length that fits a condition."""
    text = str(error.explanation or error).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def is_gone(error: APIError) -> bool:
    """Whether what was asked for is not there."""
    return isinstance(error, NotFound)


def is_conflict(error: APIError) -> bool:
    """Whether a name is taken, or something else goes on with the container."""
    return error.status_code == _CONFLICT


def is_source_missing(error: APIError) -> bool:
    """Whether the source of a mount is not there, as the engine sees its host."""
    return "bind source path does not exist" in explain(error)


def why_unreachable(error: BaseException) -> str:
    """Return in a few words why the engine could not be asked: what the operating system said, if it said anything."""
    said = ""
    for found in _chain(error):
        if isinstance(found, TimeoutError) or "timeout" in type(found).__name__.lower():
            return "it does not answer"
        if isinstance(found, OSError) and found.strerror:
            said = found.strerror.lower()
        elif isinstance(found, ConnectionError):
            said = said or "it closed the connection"
    return said or (str(error) if isinstance(error, DockerException) else "") or type(error).__name__


def is_answer(error: BaseException) -> bool:
    """Whether the engine said that it did not do it; a conflict says that somebody else is at it."""
    return isinstance(error, APIError) and not is_conflict(error)


def was_never_sent(error: BaseException) -> bool:
    """Whether there was no connection at all, so that a call that failed certainly has no effect."""
    return any(isinstance(found, (ConnectionRefusedError, FileNotFoundError)) for found in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and one by one what is behind it."""
    seen: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or found.__context__ or _wrapped(found)


def _wrapped(error: BaseException) -> BaseException | None:
    """Find what the HTTP libraries pass on as an argument instead of as a cause."""
    return next(
        (one for one in (getattr(error, "reason", None), *error.args) if isinstance(one, BaseException)), None
    )


def of_create(error: APIError) -> SandkeeperError:
    """Translate the failure of a create call, a missing image aside."""
    said = explain(error)
    if is_gone(error):
        return Permanent(
            Reason.NETWORK_MISSING, f"The engine has not got what the container is to join: {said}"
        )
    if is_source_missing(error):
        return Permanent(Reason.BIND_REFUSED, f"What is to be bound is not there: {said}")
    return _by_status(error, Reason.CREATE_FAILED, f"The engine refuses to create the container: {said}")


def image_missing(image: str, fallback: str | None = None) -> Permanent:
    """Say what to do about an image that is not there. Nothing is pulled by itself: what runs is what was put there."""
    both = f", nor {fallback} in its place" if fallback else ""
    return Permanent(
        Reason.IMAGE_MISSING,
        f"The engine has no image {image}{both}. Build or pull it there first: 'docker build -t {image} ...' or "
        f"'docker pull {image}'.",
    )


def of_start(error: APIError, container_id: str) -> SandkeeperError:
    """Translate the failure of a start call."""
    said = explain(error)
    if is_gone(error) and container_id in said:
        return Transient(Reason.START_FAILED, "The container is gone.")
    if is_gone(error):
        return Permanent(
            Reason.NETWORK_MISSING, f"The engine has not got what the container is to join: {said}"
        )
    if "executable file not found" in said:
        message = f"The container does not start: the image has to have `sleep`. {said}"
        return Permanent(Reason.START_FAILED, message)
    return _by_status(error, Reason.START_FAILED, f"The container does not start: {said}")


def _by_status(error: APIError, reason: Reason, message: str) -> SandkeeperError:
    if error.status_code == _SHUTTING_DOWN:
        return Transient(Reason.ENGINE_UNREACHABLE, message)
    if error.status_code == _BAD_REQUEST:
        return Permanent(reason, message)
    return Transient(reason, message)
