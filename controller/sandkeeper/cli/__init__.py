"""The ``sandkeeper`` command: runs the operator, and speaks to Sandboxes for people and for agent gateways.

One module for each subcommand (``run``, ``get``, ``explain``, ``touch``, ``hold``, ``recreate``, ``execute``,
``convert``), and beside them what they share:

``command``        the group that finds them
``cluster``        the Sandboxes of one namespace, through the official client
``options``        what all that speak to a cluster have in common
``failures``       what went wrong, in words that help
``sandboxes``      what a Sandbox says of itself
``columns``        lines in columns
``documents``      objects as YAML
``waiting``        until it is ready
``attachment``     a command in a sandbox, its streams joined to ours
``containers``     such commands in Docker containers
``pods``           such commands in Pods
``channels``       several streams over one connection to the API server
``terminal``       our own terminal meanwhile
``keepalive``      a long command counts as one long use
``configuration``  the operator's configuration file

What is slow to import (kopf, docker, kubernetes) is imported where it is used.
"""

from sandkeeper.cli.command import main

__all__ = ["main"]
