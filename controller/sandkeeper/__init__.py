"""Sandkeeper keeps the places where AI agents run code that nobody reviewed.

The packages below, each knowing only those before it:

``api``        the two resources as pydantic models, and the CRDs generated from them
``config``     what a Sandbox comes down to: levels, limits, keys, names, hash      (pure)
``lifecycle``  what is to be done about it, now                                     (pure)
``runtimes``   how a backend does it: one protocol, one package per backend
``cluster``    how the Kubernetes API is spoken to
``reconcile``  observe, decide, act, report; one key at a time
``cli``        the command
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
