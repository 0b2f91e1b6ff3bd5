"""The operator's ceilings: nothing reaches the host unless the installer allows it."""

from typing import Any

import pytest

from config.examples import ceilings, container, operator, policy, resolved
from sandkeeper.api.conditions import Reason
from sandkeeper.api.container import ContainerTemplate
from sandkeeper.config.builtin import BUILT_IN
from sandkeeper.config.capabilities import DEFAULT, KNOWN
from sandkeeper.config.ceilings import check, is_user_allowed
from sandkeeper.config.levels import merge_containers


def over(said: ContainerTemplate | dict[str, Any], **allowed: Any) -> list[str]:
    """What is above the ceilings, over the built-in level."""
    if isinstance(said, dict):
        said = container(**said)
    problems = list(check(merge_containers([BUILT_IN.container, said]), ceilings(**allowed)))
    assert {problem.reason for problem in problems} <= {Reason.CEILING_EXCEEDED, Reason.BIND_REFUSED}
    return [problem.message for problem in problems]


def unchecked(**fields: Any) -> ContainerTemplate:
    """A section that passed admission by, in the spelling of Python."""
    return ContainerTemplate.model_construct(**fields)


ALLOWED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"binds": ["/srv/a:/a"]}, {"bindRoots": ["/srv"]}),
    ({"network": "bridge"}, {"networks": ["bridge"]}),
    ({"user": "0:0"}, {"users": ["0"]}),
    ({"user": "00"}, {"users": ["0"]}),
    ({"user": "1000:0"}, {"users": ["0"]}),
    ({"capDrop": []}, {"capabilities": ["ALL"]}),
    ({"capDrop": []}, {"capabilities": list(DEFAULT)}),
    ({"capDrop": [name for name in DEFAULT if name != "CHOWN"]}, {"capabilities": ["CHOWN"]}),
    ({"capDrop": [f"CAP_{name}" for name in DEFAULT if name != "KILL"]}, {"capabilities": ["CAP_KILL"]}),
    ({"gpus": "all"}, {"gpus": True}),
    ({"apparmorProfile": "ours"}, {"apparmorProfiles": ["ours"]}),
    (
        {"network": "container:x", "dangerouslyAllowContainerNamespaceJoin": True},
        {"breakGlass": ["containerNamespaceJoin"]},
    ),
    (
        {"seccompProfile": "unconfined", "dangerouslyAllowUnconfinedSeccomp": True},
        {"breakGlass": ["unconfinedSeccomp"]},
    ),
    (
        {"apparmorProfile": "Unconfined", "dangerouslyAllowUnconfinedApparmor": True},
        {"breakGlass": ["unconfinedApparmor"]},
    ),
]


@pytest.mark.parametrize(("said", "allowed"), ALLOWED)
def test_denied_by_default_and_allowed_by_the_installer(
    said: dict[str, Any], allowed: dict[str, Any]
) -> None:
    (message,) = over(said)

    field = next(iter(said))
    assert message.startswith(f"container.{field}")
    assert "ask the installer to" in message
    assert f"ceilings.{next(iter(allowed))}" in message
    assert over(said, **allowed) == []


@pytest.mark.parametrize(("said", "allowed"), ALLOWED)
def test_what_is_allowed_elsewhere_does_not_help(said: dict[str, Any], allowed: dict[str, Any]) -> None:
    others: dict[str, Any] = {}
    for _, other in ALLOWED:
        others |= {name: value for name, value in other.items() if name not in allowed}

    assert over(said, **others)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"network": "none"},
        {"user": "auto"},
        {"user": "1"},
        {"capDrop": ["ALL"]},
        {"capDrop": ["ALL", "CHOWN"]},
        {"capDrop": list(DEFAULT)},
        {"apparmorProfile": "docker-default"},
        {"seccompProfile": "ours.json"},
        {"extraHosts": ["host:host-gateway"]},
        {"binds": []},
    ],
)
def test_what_needs_no_permission(said: dict[str, Any]) -> None:
    assert over(said) == []


@pytest.mark.parametrize("network", ["host", "HOST", "Host"])
def test_the_hosts_network_is_never_given(network: str) -> None:
    generous = {"networks": ["host", network], "breakGlass": ["containerNamespaceJoin"]}

    (message,) = over(unchecked(network=network, dangerously_allow_container_namespace_join=True), **generous)

    assert "never given" in message


@pytest.mark.parametrize(
    "network", ["default", "Bridge", "bridge2", "None", "ns:/proc/1/ns/net", "slirp4netns:x", "host:x"]
)
def test_another_spelling_is_another_network(network: str) -> None:
    assert over(unchecked(network=network), networks=["bridge"])


@pytest.mark.parametrize("network", ["ns:/proc/1/ns/net", "slirp4netns:x"])
def test_a_network_of_another_kind_cannot_even_be_listed(network: str) -> None:
    assert over(unchecked(network=network), networks=[network])


@pytest.mark.parametrize("network", ["container:x", "Container:x", "container:"])
@pytest.mark.parametrize(("said", "glass"), [(True, []), (False, ["containerNamespaceJoin"]), (None, [])])
def test_another_containers_network_needs_both_keys(
    *, network: str, said: bool | None, glass: list[str]
) -> None:
    joined = unchecked(network=network, dangerously_allow_container_namespace_join=said)

    messages = over(joined, networks=[network], breakGlass=glass)

    assert len(messages) == (not said) + (not glass)


@pytest.mark.parametrize("profile", ["unconfined", "UNCONFINED", "Unconfined"])
@pytest.mark.parametrize(
    ("field", "key", "glass"),
    [
        ("seccomp_profile", "dangerously_allow_unconfined_seccomp", "unconfinedSeccomp"),
        ("apparmor_profile", "dangerously_allow_unconfined_apparmor", "unconfinedApparmor"),
    ],
)
def test_unconfined_needs_both_keys_in_any_case(profile: str, field: str, key: str, glass: str) -> None:
    generous = {"apparmorProfiles": [profile]}

    assert over(unchecked(**{field: profile}), **generous)
    assert over(unchecked(**{field: profile, key: True}), **generous)
    assert over(unchecked(**{field: profile}), breakGlass=[glass], **generous)
    assert not over(unchecked(**{field: profile, key: True}), breakGlass=[glass])


@pytest.mark.parametrize("name", DEFAULT)
def test_each_capability_that_is_kept_is_named(name: str) -> None:
    kept = {"capDrop": [other for other in DEFAULT if other != name]}

    (message,) = over(kept, capabilities=[other for other in KNOWN if other != name])

    assert f"keeps {name}:" in message


def test_root_cannot_be_spelled_around() -> None:
    for user in ("0", "0:0", "0:1000", "00", "0000000000", "000:5"):
        assert not is_user_allowed(user, ceilings())
        assert is_user_allowed(user, ceilings(users=["0"]))
    for user in ("root", "", ":0", "-1", "\u0660", "²", " 0", "0x0", "auto"):
        assert not is_user_allowed(user, ceilings(users=["0"]))


def test_everything_is_told_at_once_under_the_first_reason() -> None:
    under = policy(container={"network": "lan", "user": "0", "gpus": "1"})

    problem = resolved(under=under).problem

    assert problem is not None
    assert problem.reason is Reason.CEILING_EXCEEDED
    for field in ("network", "user", "gpus"):
        assert f"container.{field}: " in problem.message


def test_agents_entries_stand_under_the_same_ceilings() -> None:
    under = policy(agents=[{"id": "dev", "container": {"network": "lan"}}])

    assert resolved(under=under).problem is not None
    assert resolved(under=under, operated=operator(ceilings={"networks": ["lan"]})).problem is None
