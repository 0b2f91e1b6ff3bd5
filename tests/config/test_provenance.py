"""Who says which value: the levels as people are told of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.api.policy import AgentSandboxPolicySpec, Backend, Scope
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.levels import merge_containers
from sandkeeper.config.provenance import Said, identity_of, values_of
from sandkeeper.config.scope import applicable_levels, identify

POLICY = AgentSandboxPolicySpec.model_validate(
    {
        "scope": "session",
        "hotWindowSeconds": 60,
        "container": {
            "image": "tools:1",
            "memory": "1g",
            "env": {"HOUSE": "tidy", "LANG": "de_DE.UTF-8"},
            "binds": ["/srv/shared:/shared"],
        },
        "prune": {"idleSeconds": 7},
        "limits": {"cpus": 2},
        "agents": [
            {
                "id": "rain",
                "mode": "non-main",
                "container": {"memory": "2g", "env": {"HOUSE": "wet"}, "binds": ["/srv/rain:/rain:rw"]},
            }
        ],
    }
)
RAIN = SandboxSpec.model_validate(
    {"agentId": "rain", "sessionKey": "evening", "scope": "session", "container": {"image": "mine:1"}}
)


def said(spec: SandboxSpec, policy: AgentSandboxPolicySpec) -> dict[str, tuple[object, str]]:
    scope = identify(spec, policy).scope
    levels = applicable_levels(spec, policy, scope=scope, default_backend=Backend.POD)
    return {each.field: (each.value, each.by) for each in values_of(levels)}


@pytest.mark.parametrize(
    ("field", "value", "by"),
    [
        ("backend", "pod", "built-in"),
        ("hotWindowSeconds", 60, "the policy"),
        ("container.image", "mine:1", "the Sandbox"),
        ("container.memory", "2g", "agents[rain]"),
        ("container.cpus", 2, "the policy's limits"),
        ("container.workdir", "/workspace", "built-in"),
        ("container.env.HOUSE", "wet", "agents[rain]"),
        ("container.env.LANG", "de_DE.UTF-8", "the policy"),
        ("container.binds[0]", "/srv/shared:/shared", "the policy"),
        ("container.binds[1]", "/srv/rain:/rain:rw", "agents[rain]"),
        ("prune.idleSeconds", 7, "the policy"),
        ("prune.maxAgeSeconds", 604_800, "built-in"),
    ],
)
def test_the_most_particular_level_that_applies_has_the_word(field: str, value: object, by: str) -> None:
    assert said(RAIN, POLICY)[field] == (value, by)


def test_a_level_that_does_not_apply_has_no_say() -> None:
    shared = POLICY.model_copy(update={"scope": Scope.SHARED})
    found = said(SandboxSpec.model_validate({"agentId": "rain"}), shared)
    assert found["container.memory"] == ("1g", "the policy")
    assert "container.binds[1]" not in found


def test_who_says_whether_it_is_sandboxed_and_with_whom_it_shares() -> None:
    assert identity_of(RAIN, POLICY) == [
        Said(field="mode", value="non-main", by="agents[rain]"),
        Said(field="mainSessionKey", value="main", by="built-in"),
        Said(field="scope", value="session", by="the Sandbox"),
    ]


CONTAINERS = st.fixed_dictionaries(
    {},
    optional={
        "memory": st.sampled_from(["64m", "1g"]),
        "env": st.dictionaries(st.sampled_from("AB"), st.sampled_from("xy"), max_size=2),
        "binds": st.lists(st.sampled_from(["/a:/a", "/b:/b"]), unique=True, max_size=2),
    },
)


@given(CONTAINERS, CONTAINERS)
def test_what_is_told_is_what_is_merged(policy: dict[str, object], agent: dict[str, object]) -> None:
    spec = SandboxSpec.model_validate({"agentId": "rain"})
    whole = AgentSandboxPolicySpec.model_validate(
        {"container": policy, "agents": [{"id": "rain", "container": agent}]}
    )
    levels = applicable_levels(spec, whole, scope=identify(spec, whole).scope, default_backend=Backend.DOCKER)
    merged = merge_containers(level.container for level in levels)
    found = {each.field: each.value for each in values_of(levels)}
    assert found.get("container.memory") == merged.memory
    env = {name: value for name, value in (merged.env or {}).items() if name in "AB"}
    assert {name: found.get(f"container.env.{name}") for name in env} == env
    assert [found[name] for name in found if name.startswith("container.binds[")] == list(merged.binds or [])
