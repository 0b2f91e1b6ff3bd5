"""Runtimes as Pods of the cluster that the operator runs in.

What a Pod looks like (:mod:`desired`), what it may reach (:mod:`network`) and where its workspace is kept
(:mod:`claims`) are pure functions.
"""
