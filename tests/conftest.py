"""What all tests share. The fixtures themselves live in ``support``, one module for each thing that they bring."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "support.cluster",
    "support.api",
    "support.crds",
    "support.engine",
    "support.nodes",
    "support.operator",
    "support.pods",
    "support.proxy",
]

# The machine is noisy: how long one example takes says nothing about the code.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
