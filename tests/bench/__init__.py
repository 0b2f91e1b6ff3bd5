"""What Sandkeeper costs, measured on a real API server and a real Docker engine.

Every figure of time stands beside a baseline from the same run, taken in turns with it: the same containers, made on
the same engine by hand. So a busy machine slows both, and the ratio is what counts.
"""
