"""The machine's packet filter: our own few rules, and the rest of what an engine of ours leaves in it.

The difference between two listings of ``iptables-save`` is a pure function, so that it can be tested
on text; applying it is one call of ``iptables-restore``, which takes it whole or not at all.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from testbed.instance import Instance

_ENGINE_CHAIN = re.compile(r"(?:^:|-[AjN] )(DOCKER[A-Z0-9-]*)")


@dataclass
class Table:
    """One table of a listing."""

    policies: dict[str, str] = field(default_factory=dict)
    """By chain; a chain that was added has the policy ``-``."""
    rules: list[str] = field(default_factory=list)


def save() -> str:
    """List the rules as they are now."""
    return subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout


def restore(commands: str) -> None:
    """Apply changes; without --noflush everything else would go."""
    if commands:
        subprocess.run(
            ["iptables-restore", "--noflush", "--wait", "10"],
            input=commands,
            text=True,
            check=True,
            capture_output=True,
        )


def parse(listing: str) -> dict[str, Table]:
    """Read a listing of iptables-save."""
    tables: dict[str, Table] = {}
    table = Table()
    for line in listing.splitlines():
        if line.startswith("*"):
            table = tables.setdefault(line[1:], Table())
        elif line.startswith(":"):
            chain, policy, *_ = line[1:].split()
            table.policies[chain] = policy
        elif line.startswith("-A "):
            table.rules.append(line)
    return tables


def removal(now: str, *, before: str, is_ours: Callable[[str], bool]) -> str:
    """Say, for iptables-restore, how to take away what is ours and was not there before.

    Chains that go take their rules along. Where a policy of a built-in chain was changed since and
    chains of an engine go, the policy goes back too: engines set FORWARD to DROP.
    """
    was = parse(before)
    written = []
    for name, table in parse(now).items():
        old = was.get(name, Table())
        chains = [
            chain
            for chain, policy in table.policies.items()
            if policy == "-" and chain not in old.policies and is_ours(f":{chain}")
        ]
        rules = [
            rule
            for rule in table.rules
            if rule not in old.rules and (is_ours(rule) or rule.split()[1] in chains)
        ]
        policies = [
            f":{chain} {old.policies.get(chain, 'ACCEPT')}"
            for chain, policy in table.policies.items()
            if chains and policy not in {"-", old.policies.get(chain, "ACCEPT")}
        ]
        if chains or rules:
            written += [
                f"*{name}",
                *policies,
                *(f"-D {rule.removeprefix('-A ')}" for rule in rules),
                *(f"-X {chain}" for chain in chains),
                "COMMIT",
            ]
    return "".join(f"{line}\n" for line in written)


def of_instance(instance: Instance, *, bridges: Iterable[str], engine: bool) -> Callable[[str], bool]:
    """Tell what belongs to one test bed; the engine's chains only if it is the last one with an engine."""
    prefix = re.escape(f"10.{instance.octet}.")
    names = "|".join(re.escape(bridge) for bridge in bridges)
    ours = re.compile(rf"\b{prefix}\d|sandkeeper-testbed {instance.identity}\b|-[io] (?:{names})(?= |$)")

    def is_ours(line: str) -> bool:
        return ours.search(line) is not None or (engine and _ENGINE_CHAIN.search(line) is not None)

    return is_ours


def own_rules(instance: Instance, *, engine_filters: bool) -> dict[str, Sequence[str]]:
    """State our own rules.

    Pods may reach the world, and the API server at the address of its Service. There is no kube-proxy
    for that: one rule does it. An engine that must not touch the packet filter gets its share from us.
    """
    mark = f'-m comment --comment "sandkeeper-testbed {instance.identity}"'
    to_service = f"-d {instance.api_service}/32 -i {instance.pod_bridge} -p tcp"
    api_server = f"127.0.0.1:{instance.ports.api_server}"
    networks = [instance.pod_network]
    bridges = [instance.pod_bridge]
    if not engine_filters:
        networks.append(instance.network)
        bridges.append(instance.docker_bridge)
    return {
        "nat": [
            f"PREROUTING {to_service} {mark} -m tcp --dport 443 -j DNAT --to-destination {api_server}",
            *(f"POSTROUTING -s {each} ! -d {instance.network} {mark} -j MASQUERADE" for each in networks),
        ],
        "filter": [
            rule
            for bridge in bridges
            for rule in (f"FORWARD -i {bridge} {mark} -j ACCEPT", f"FORWARD -o {bridge} {mark} -j ACCEPT")
        ],
    }


def ensure_own_rules(instance: Instance, *, engine_filters: bool) -> None:
    """Put our rules in first place, each once."""
    present = parse(save())
    written = []
    for name, rules in own_rules(instance, engine_filters=engine_filters).items():
        there = {_normal(rule) for rule in present.get(name, Table()).rules}
        missing = [f"-I {rule}" for rule in rules if _normal(f"-A {rule}") not in there]
        if missing:
            written += [f"*{name}", *missing, "COMMIT"]
    restore("".join(f"{line}\n" for line in written))


def _normal(rule: str) -> frozenset[str]:
    """Compare rules by their words: iptables-save has an order of its own."""
    return frozenset(rule.split())
