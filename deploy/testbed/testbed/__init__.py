"""A real cluster and a real Docker engine for tests, in one command.

``python -m testbed up`` takes the first provider that fits (`providers`): a cluster that the caller
names, kind, or a cluster of our own on this machine (`local`), built from Go modules (`binaries`).
``status``, ``env`` and ``down`` speak about whatever ``up`` made, and ``down`` takes away that and
nothing else. The tests use the same thing through the fixtures of ``tests/support/cluster.py``.
"""
