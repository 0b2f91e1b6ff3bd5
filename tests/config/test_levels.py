"""Merging: binds concatenated, env and ulimits merged, everything else replaced, sections field by field."""

# ruff: noqa: S108 - the paths lie inside a sandbox

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import container, made_from, policy, resolved, sandbox
from sandkeeper.api.container import ContainerTemplate, Ulimit
from sandkeeper.config.levels import merge_containers

NAMES = st.sampled_from(["A", "B", "C"])
CONTAINERS = st.builds(
    ContainerTemplate,
    image=st.none() | st.sampled_from(["x", "y"]),
    env=st.none() | st.dictionaries(NAMES, st.sampled_from(["1", "2"])),
    ulimits=st.none()
    | st.dictionaries(
        st.sampled_from(["nofile", "core"]),
        st.builds(Ulimit, soft=st.just(1), hard=st.sampled_from([2, 3])),
    ),
    binds=st.none() | st.lists(st.sampled_from(["/a:/a", "/b:/b"]), max_size=2),
    tmpfs=st.none() | st.lists(st.sampled_from(["/tmp", "/run"]), max_size=2),
    init=st.none() | st.booleans(),
)


@given(CONTAINERS, CONTAINERS, CONTAINERS)
def test_merging_can_be_done_in_any_grouping(
    a: ContainerTemplate, b: ContainerTemplate, c: ContainerTemplate
) -> None:
    assert merge_containers([merge_containers([a, b]), c]) == merge_containers([a, merge_containers([b, c])])


@given(CONTAINERS)
def test_a_level_that_says_nothing_changes_nothing(a: ContainerTemplate) -> None:
    alone = merge_containers([a])

    assert merge_containers([None, container(), a, container(), None]) == alone
    assert alone.model_dump(exclude_none=True) == a.model_dump(exclude_none=True)


@given(CONTAINERS, CONTAINERS)
def test_what_the_narrower_level_says_is_what_counts(a: ContainerTemplate, b: ContainerTemplate) -> None:
    merged = merge_containers([a, b])

    assert merged.image == (a.image if b.image is None else b.image)
    assert merged.tmpfs == (a.tmpfs if b.tmpfs is None else b.tmpfs)
    assert merged.init == (a.init if b.init is None else b.init)
    assert (merged.env or {}) == {**(a.env or {}), **(b.env or {})}
    assert (merged.ulimits or {}) == {**(a.ulimits or {}), **(b.ulimits or {})}
    assert (merged.binds or []) == [*(a.binds or []), *(b.binds or [])]


@pytest.mark.parametrize("field", sorted(ContainerTemplate.model_fields))
def test_no_field_gets_lost(field: str) -> None:
    # Compared by the schema, so that a field added later is asked for here as well.
    value = object()
    said: dict[str, Any] = {field: {"k": value} if field in {"env", "ulimits"} else [value]}
    one = ContainerTemplate.model_construct(**said)

    assert getattr(merge_containers([container(), one]), field) == getattr(one, field)


def test_an_explicit_false_or_empty_list_replaces() -> None:
    under = policy(container={"init": False, "tmpfs": [], "readOnlyRoot": False, "env": {}})

    config = made_from(resolved(under=under))

    assert (config.init, config.read_only_root, config.tmpfs) == (False, False, ())
    assert config.env == {"LANG": "C.UTF-8"}, "mappings are merged, so an empty one takes nothing away"


def test_more_binds_than_one_level_may_list() -> None:
    binds = [f"/srv/{n}:/mnt/{n}" for n in range(64)]
    more = [f"/srv/{n}:/mnt/{n}" for n in range(64, 128)]

    merged = merge_containers([container(binds=binds), container(binds=more)])

    assert merged.binds == [*binds, *more]


def test_windows_merge_field_by_field() -> None:
    under = policy(
        prune={"idleSeconds": 10, "maxAgeSeconds": 20},
        rollout={"paused": True},
        limits={"maxHoldSeconds": 0},
        agents=[{"id": "dev", "prune": {"idleSeconds": 0, "deleteAfterSeconds": 5}, "rollout": {}}],
    )

    windows = resolved(under=under).windows

    assert [
        length.total_seconds()
        for length in (windows.idle, windows.max_age, windows.delete_after, windows.hot, windows.max_hold)
    ] == [0, 20, 5, 300, 0]
    assert windows.rollout_paused


def test_the_backend_is_the_narrowest_levels() -> None:
    under = policy(backend="pod", agents=[{"id": "dev", "backend": "docker"}])

    assert made_from(resolved(under=under)).backend == "docker"
    problem = resolved(sandbox(scope="shared"), under=under).problem
    assert problem is not None
    assert problem.reason == "BackendUnavailable"
    assert "does not serve pod" in problem.message
