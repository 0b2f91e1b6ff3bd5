"""Runtimes as containers of a Docker engine.

:mod:`backend` does what the protocol asks for. It speaks to the engine through :mod:`engine`, which gives up on one
that hangs; it knows what is there from :mod:`watch`. What a container is made from (:mod:`arguments`), what an
inspection means (:mod:`inspection`) and what an error means (:mod:`failures`) are pure functions. :mod:`host` looks at
the host's files, :mod:`setup` runs the setupCommand.
"""

from sandkeeper.runtimes.docker.backend import DockerRuntimes

__all__ = ["DockerRuntimes"]
