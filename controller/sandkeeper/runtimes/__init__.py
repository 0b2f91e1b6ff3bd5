"""The places that run agents' code: one protocol, and one package for each backend that keeps to it."""
