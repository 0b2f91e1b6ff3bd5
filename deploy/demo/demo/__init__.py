"""The demo: one household on a real cluster, from the first ``kubectl apply`` to the last container.

``python -m demo up`` brings up a test bed, an image and an operator (`scene`), then walks through the life of
sandboxes (`story`) and checks each step against the cluster and the engine. Everything stays up to be played
with, until ``python -m demo down``.
"""
