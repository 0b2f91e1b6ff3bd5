"""What all tests share. The fixtures themselves live in ``support``, one module for each thing that they bring."""

import os

from hypothesis import HealthCheck, Phase, settings

pytest_plugins = [
    "support.cluster",
    "support.api",
    "support.crds",
    "support.engine",
    "support.groups",
    "support.images",
    "support.helm",
    "support.nodes",
    "support.rights",
    "support.operator",
    "support.pods",
    "support.prometheus",
    "support.proxy",
    "support.volumes",
    "support.worlds",
]

# The machine is noisy: how long one example takes says nothing about the code.
settings.register_profile(
    "nightly", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=10_000
)
# The same examples each time, so that a failure speaks of the change that it came with; the nightly ones search on.
settings.register_profile("default", settings.get_profile("nightly"), max_examples=100, derandomize=True)
# Thousands of times in a row: whether a test fails counts, not by which example, and each time it has to be the same.
settings.register_profile(
    "mutation",
    settings.get_profile("default"),
    max_examples=25,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
