"""Observe, decide, act, report: one key at a time, until the world is as it should be.

``objects``     what the API server told us, as typed views
``caches``      all of it, exact also after a lost watch
``claims``      which Sandboxes belong to which runtime key
``belonging``   to which of two keys a Sandbox belongs while it moves
``queue``       what to look at next: serial by key, parallel across keys
``deadlines``   what to look at later: one heap
``passes``      one pass over one key
``setups``      setupCommands that run meanwhile
``memory``      what failed, and when it is tried again
``situations``  claims as claimants
``effects``     a plan's effect, carried out
``statuses``    a plan's report, as a status
``keeper``      the Sandboxes as they are written
``finalizers``  when a Sandbox may go
``handover``    from when on it is known what others did before
``sources``     kopf and the list-diff: where events come from
``operator``    everything together, from start to SIGTERM
"""
