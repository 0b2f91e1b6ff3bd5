"""What a Sandbox comes down to: levels merged, limits and ceilings applied, named and hashed.

Pure throughout.

Nothing here reads a file, a clock or the network, and nothing logs: the same specs give the same answer, in a
test as in the operator. :mod:`sandkeeper.config.resolve` is the way in; the other modules are one step of it
each.
"""
