from __future__ import annotations

from testbed import firewall
from testbed.instance import Instance, Ports

INSTANCE = Instance("abc123", 210, Ports(1, 2, 3, 4, 5, 6, 7))

OTHERS = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [5:300]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -j MINE
COMMIT
"""

WITH_US = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:LATER - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -o skd-abc123 -j DOCKER
-A FORWARD -i skp-abc123 -m comment --comment "sandkeeper-testbed abc123" -j ACCEPT
-A FORWARD -i skp-abc1234 -j ACCEPT
-A FORWARD -j MINE
-A FORWARD -j LATER
-A DOCKER-USER -j RETURN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 10.210.4.0/22 ! -d 10.210.0.0/16 -j MASQUERADE
-A POSTROUTING -s 10.21.0.0/24 -j MASQUERADE
COMMIT
"""


def removal(*, engine: bool, before: str = OTHERS) -> str:
    is_ours = firewall.of_instance(INSTANCE, bridges=["skd-abc123", "skp-abc123"], engine=engine)
    return firewall.removal(WITH_US, before=before, is_ours=is_ours)


def test_what_is_ours_goes_and_what_others_added_meanwhile_stays() -> None:
    assert (
        removal(engine=True)
        == """\
*filter
:FORWARD ACCEPT
-D FORWARD -j DOCKER-USER
-D FORWARD -o skd-abc123 -j DOCKER
-D FORWARD -i skp-abc123 -m comment --comment "sandkeeper-testbed abc123" -j ACCEPT
-D DOCKER-USER -j RETURN
-X DOCKER
-X DOCKER-USER
COMMIT
*nat
-D POSTROUTING -s 10.210.4.0/22 ! -d 10.210.0.0/16 -j MASQUERADE
COMMIT
"""
    )


def test_the_chains_and_the_policy_of_another_engine_stay() -> None:
    written = removal(engine=False)
    assert "DOCKER-USER" not in written
    assert ":FORWARD" not in written
    assert "-D FORWARD -o skd-abc123 -j DOCKER" in written


def test_what_was_there_before_stays() -> None:
    assert not removal(engine=True, before=WITH_US)


def test_our_rules_are_recognised_as_ours() -> None:
    is_ours = firewall.of_instance(INSTANCE, bridges=[], engine=False)
    for rules in firewall.own_rules(INSTANCE, engine_filters=False).values():
        assert rules
        assert all(is_ours(f"-A {rule}") for rule in rules)
