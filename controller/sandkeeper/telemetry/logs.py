"""Logging for those who run the operator; users are told by conditions and Events."""

import logging

__all__ = ["set_up_logging"]


def set_up_logging(*, verbose: bool) -> None:
    """Send log lines to standard error; ``verbose`` adds our own debug lines, not those of libraries."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        force=True,
    )
    logging.getLogger("sandkeeper").setLevel(logging.DEBUG if verbose else logging.INFO)
    for library in ("kopf", "urllib3", "docker"):
        logging.getLogger(library).setLevel(logging.WARNING)
