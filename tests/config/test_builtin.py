"""The built-in level stays as it is, or raises the hash epoch."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from config.examples import made_from, operator, resolved
from sandkeeper.api.policy import Backend
from sandkeeper.config.builtin import BUILT_IN, MAX_HOLD_SECONDS
from sandkeeper.config.canonical import EPOCH

AT_EPOCH_2 = {
    "mode": "all",
    "mainSessionKey": "main",
    "scope": "agent",
    "container": {
        "image": "sandkeeper-sandbox:bookworm-slim",
        "containerPrefix": "sandkeeper-",
        "workdir": "/workspace",
        "readOnlyRoot": True,
        "tmpfs": ["/tmp", "/var/tmp", "/run"],
        "network": "none",
        "user": "1000:1000",
        "capDrop": ["ALL"],
        "env": {"LANG": "C.UTF-8"},
        "init": True,
        "setupTimeoutSeconds": 300,
        "imageFallback": False,
    },
    "prune": {"idleSeconds": 86400, "maxAgeSeconds": 604800, "deleteAfterSeconds": 0},
    "hotWindowSeconds": 300,
    "rollout": {"paused": False, "maxUnavailable": "25%", "maxFailed": 0},
}


def test_a_changed_default_needs_a_new_epoch() -> None:
    # Another value here without another epoch would take runtimes of the old default for equal.
    said = BUILT_IN.model_dump(mode="json", by_alias=True, exclude_none=True, serialize_as_any=True)
    assert (EPOCH, said) == (2, AT_EPOCH_2)


def test_holds_are_capped_at_a_day() -> None:
    assert MAX_HOLD_SECONDS == 86_400


def test_the_default_backend_is_the_operators() -> None:
    pods = operator(defaultBackend="pod", backends=["pod"])

    assert made_from(resolved()).backend is Backend.DOCKER
    assert made_from(resolved(operated=pods)).backend is Backend.POD


def test_the_built_in_policy_stays_below_ceilings_that_allow_nothing() -> None:
    assert resolved().problem is None
    assert resolved().policy == "built-in"
