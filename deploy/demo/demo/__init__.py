"""The demo: one household on a real cluster, from the first ``kubectl apply`` to the last container.

``python -m demo up`` brings up a test bed, an image and an operator (`scene`), then walks through the life of
sandboxes (`story`) and checks each step against what can be seen from outside (`world`), on a Docker engine or, with
``--backend pod``, on a node. Everything stays up to be played with, until ``python -m demo down``.
"""
