"""Names: valid whatever the input, never shared. Labels: proof of what is ours."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandkeeper.api.names import Label
from sandkeeper.config.keys import RuntimeKey
from sandkeeper.config.naming import (
    installation_id,
    key_from_labels,
    key_from_pod,
    key_hash,
    labels,
    pod_annotations,
    pod_labels,
    runtime_name,
    slug,
    wiped_for,
)

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)

TEXT = st.text(st.characters(), max_size=80)  # lone surrogates as well
CONFUSING = st.text(st.sampled_from('aA-_.:/ "\\,[]é\0'), max_size=6)
KEYS = st.builds(RuntimeKey, *[TEXT | CONFUSING] * 4)
KEY = RuntimeKey("team", "0f6c", "default", "agent:dev")


@given(prefix=TEXT | CONFUSING, key=KEYS, installation=TEXT)
@example(prefix="", key=RuntimeKey("", "", "", ""), installation="")
@example(prefix="-" * 80, key=RuntimeKey("", "", "", "." * 80), installation="")
@example(prefix="İ", key=RuntimeKey("", "", "", "\u017fK"), installation="")
@example(prefix="a" * 63, key=RuntimeKey("", "", "", "b" * 600), installation="c")
def test_a_name_is_a_dns_label_whatever_the_input(prefix: str, key: RuntimeKey, installation: str) -> None:
    assert DNS_LABEL.fullmatch(runtime_name(prefix, key, installation))
    assert LABEL_VALUE.fullmatch(key_hash(key, installation))


@given(one=st.tuples(CONFUSING, KEYS, CONFUSING), other=st.tuples(CONFUSING, KEYS, CONFUSING))
def test_no_two_keys_share_a_name(
    one: tuple[str, RuntimeKey, str], other: tuple[str, RuntimeKey, str]
) -> None:
    if one[1:] != other[1:]:
        assert runtime_name(*one) != runtime_name(*other)
        assert key_hash(*one[1:]) != key_hash(*other[1:])


ALIKE = [
    RuntimeKey("a-b", "u", "c", "shared"),
    RuntimeKey("a", "u", "b-c", "shared"),
    RuntimeKey("a", "b", "u-c", "shared"),
    RuntimeKey("a", "u", "b", "c-shared"),
    RuntimeKey("a", "u", "c", "agent:x"),
    RuntimeKey("a", "u", "c", "agent-x"),
    RuntimeKey("a", "u", "c", "agent:X"),
    RuntimeKey("a", "u", "c", "agent:x:"),
    RuntimeKey("a", "u", "c", "agent:x:session:y"),
    RuntimeKey("a", "u", "c", "agent:x-session:y"),
    RuntimeKey("a", "v", "c", "agent:x"),
    RuntimeKey("a", "u", "C", "agent:x"),
    RuntimeKey('a","u', "", "c", "agent:x"),
    RuntimeKey("a", 'u","c', "", "agent:x"),
    RuntimeKey("a", "u", 'c","agent:x', ""),
    RuntimeKey("a", "u", "c", "agent:" + "x" * 100),
    RuntimeKey("a", "u", "c", "agent:" + "x" * 101),
    RuntimeKey("a", "u", "c", "agent:é"),
    RuntimeKey("a", "u", "c", "agent:e\u0301"),
    RuntimeKey("a", "u", "c", "agent:\\u00e9"),
    RuntimeKey("a", "u", "c", "agent:\U0001f600"),
    RuntimeKey("a", "u", "c", "agent:\ud83d\ude00"),
]


def test_keys_that_look_alike_are_kept_apart() -> None:
    names = {
        runtime_name(prefix, key, installation)
        for key in ALIKE
        for installation in ("i", "j", "")
        for prefix in ("p-",)
    }

    assert len(names) == len(ALIKE) * 3


def test_a_prefix_cannot_make_one_name_of_two() -> None:
    assert runtime_name("p-agent-", replace(KEY, scope="dev"), "i") != runtime_name("p-", KEY, "i")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("agent:dev", "agent-dev"),
        ("agent:Dev_1.x:session:main", "agent-dev-1-x-session-main"),
        ("--a--", "a"),
        ("...", ""),
        ("", ""),
        ("агент", ""),
        ("é" * 10 + "x", "x"),
        ("x" * 40, "x" * 32),
        ("x" * 31 + ":y", "x" * 31),
    ],
)
def test_a_slug_is_what_is_readable(text: str, expected: str) -> None:
    assert slug(text) == expected


def test_names_people_will_see() -> None:
    # Golden: with another name the runtimes that exist would not be known as the same.
    assert runtime_name("sandkeeper-", KEY, "i") == "sandkeeper-agent-dev-nowk3bwchhdme"
    assert key_hash(KEY, "i") == "6bacad86c239c6c23200f7e1630041b4419308d9"
    assert installation_id(kube_system_uid="u", namespace="n", release="r") == "25b7961fe90a68f9"


def test_names_of_free_text_never_change_either() -> None:
    key = RuntimeKey("team", "0f6c", "default", "agent:dev:session:größe \ud800")

    assert runtime_name("sbx-", key, "i") == "sbx-agent-dev-session-gr-e-bzx5ci4p6ggdc"
    assert key_hash(key, "i") == "0e6fd1238ff18c314d7388e917c1945c1c61c09c"


def test_an_installation_is_cluster_namespace_and_release() -> None:
    ids = {
        installation_id(kube_system_uid=uid, namespace=namespace, release=release)
        for uid in ("u", "v")
        for namespace in ("n", "n-r")
        for release in ("r", "r-r", "")
    }

    assert len(ids) == 12
    assert all(re.fullmatch(r"[0-9a-f]{16}", found) for found in ids)


@given(key=KEYS, installation=TEXT, setup=st.booleans())
def test_labels_prove_the_key(*, key: RuntimeKey, installation: str, setup: bool) -> None:
    found = labels(key, installation=installation, config_hash="v1-0", has_setup=setup)

    assert key_from_labels(found, installation) == key
    assert (found.get(Label.SETUP) == "true") is setup
    assert found[Label.CONFIG_HASH] == "v1-0"
    assert all(type(name) is str for name in found), "a client may not know what to do with an enum"


def test_a_runtime_carries_the_wipes_that_are_done_with() -> None:
    for marks in (
        labels(KEY, installation="i", config_hash="v1-0", wiped_for=("0f", "a1")),
        pod_annotations(KEY, config_hash="v1-0", wiped_for=("0f", "a1")),
    ):
        assert marks["sandkeeper.dev/wiped-for"] == "0f a1"
        assert wiped_for(marks) == {"0f", "a1"}
    for marks in (
        labels(KEY, installation="i", config_hash="v1-0"),
        pod_annotations(KEY, config_hash="v1-0"),
    ):
        assert Label.WIPED_FOR not in marks
        assert wiped_for(marks) == frozenset()


@pytest.mark.parametrize(
    "label",
    [
        Label.MANAGED_BY,
        Label.INSTALLATION,
        Label.NAMESPACE,
        Label.NAMESPACE_UID,
        Label.POLICY,
        Label.KEY,
        Label.KEY_HASH,
    ],
)
def test_what_was_tampered_with_is_not_ours(label: Label) -> None:
    found = labels(KEY, installation="i", config_hash="v1-0")
    without = {name: value for name, value in found.items() if name != label}

    assert key_from_labels(without, "i") is None
    assert key_from_labels({**found, label: "other"}, "i") is None
    assert key_from_labels({**found, label: ""}, "i") is None


def test_what_belongs_to_another_installation_is_not_ours() -> None:
    found = labels(KEY, installation="i", config_hash="v1-0")

    assert key_from_labels(found, "j") is None
    assert key_from_labels({**found, Label.INSTALLATION: "j"}, "j") is None
    assert key_from_labels({}, "") is None


def test_labels_that_say_nothing_about_the_key_do_not_matter() -> None:
    found = labels(KEY, installation="i", config_hash="v1-0")

    assert (
        key_from_labels({**found, "org.opencontainers.image.title": "x", Label.CONFIG_HASH: "?"}, "i") == KEY
    )


def metadata(key: RuntimeKey, installation: str = "i", **annotations: Any) -> dict[str, Any]:
    return {
        "namespace": key.namespace,
        "labels": pod_labels(key, installation=installation),
        "annotations": pod_annotations(key, **annotations),
    }


def test_what_a_pod_is_known_by() -> None:
    assert metadata(KEY, config_hash="v1-0", has_setup=True) == {
        "namespace": "team",
        "labels": {
            "app.kubernetes.io/managed-by": "sandkeeper",
            "sandkeeper.dev/installation": "i",
            "sandkeeper.dev/key-hash": "6bacad86c239c6c23200f7e1630041b4419308d9",
        },
        "annotations": {
            "sandkeeper.dev/namespace-uid": "0f6c",
            "sandkeeper.dev/policy": "default",
            "sandkeeper.dev/key": "agent:dev",
            "sandkeeper.dev/config-hash": "v1-0",
            "sandkeeper.dev/setup": "true",
        },
    }
    assert Label.CONFIG_HASH not in pod_annotations(KEY)
    assert Label.SETUP not in pod_annotations(KEY, config_hash="v1-0")


@given(key=KEYS, installation=TEXT, setup=st.booleans())
def test_a_pod_proves_its_key(*, key: RuntimeKey, installation: str, setup: bool) -> None:
    found = metadata(key, installation, config_hash="v1-0", has_setup=setup)

    assert key_from_pod(found, installation) == key
    assert key_from_pod(found, installation + "x") is None
    assert all(type(name) is str for name in (*found["labels"], *found["annotations"]))
    for name, value in found["labels"].items():
        assert name == Label.INSTALLATION or LABEL_VALUE.fullmatch(value)


@given(one=KEYS, other=KEYS)
def test_a_pod_proves_no_other_key(one: RuntimeKey, other: RuntimeKey) -> None:
    """Nor does one that was copied, or whose annotations were exchanged."""
    if one != other:
        for part in ("namespace", "labels", "annotations"):
            mixed = {**metadata(one), part: metadata(other)[part]}
            assert key_from_pod(mixed, "i") is None or mixed in (metadata(one), metadata(other))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("labels", Label.MANAGED_BY),
        ("labels", Label.INSTALLATION),
        ("labels", Label.KEY_HASH),
        ("annotations", Label.NAMESPACE_UID),
        ("annotations", Label.POLICY),
        ("annotations", Label.KEY),
    ],
)
def test_a_pod_that_was_tampered_with_is_not_ours(part: str, name: Label) -> None:
    found = metadata(KEY)
    without = {other: value for other, value in found[part].items() if other != name}

    assert key_from_pod({**found, part: without}, "i") is None
    assert key_from_pod({**found, part: {**without, name: "other"}}, "i") is None
    assert key_from_pod({**found, part: {**without, name: ""}}, "i") is None


def test_what_a_pod_says_counts_in_its_place_only() -> None:
    found = metadata(KEY)

    assert key_from_pod({**found, "namespace": "other"}, "i") is None
    assert (
        key_from_pod({**found, "labels": {}, "annotations": found["annotations"] | found["labels"]}, "i")
        is None
    )
    assert (
        key_from_pod({**found, "annotations": {}, "labels": found["annotations"] | found["labels"]}, "i")
        is None
    )
    assert key_from_pod({**found, "labels": found["labels"] | {Label.NAMESPACE: "other"}}, "i") == KEY
    assert key_from_pod({"name": "x"}, "") is None
    assert key_from_pod({**found, "labels": None, "annotations": None}, "i") is None
