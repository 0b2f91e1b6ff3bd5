"""``{agentId}``: a directory for each agent, and never another's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import made_from, operator, pods, policy, resolved, sandbox, workspace
from sandkeeper.api.conditions import Reason
from sandkeeper.api.sandbox import SandboxSpec
from sandkeeper.config.pod import HostPathVolume
from sandkeeper.config.sources import ClaimSource, ConfigMapSource, HostSource
from sandkeeper.config.templates import fill_workspace, names_agent

OPERATED = operator(ceilings={"bindRoots": ["/srv"]})
AGENTS = {"agent": {"hostPath": {"path": "/srv/agents/{agentId}"}}, "access": "rw"}


def of_agent(agent_id: str) -> SandboxSpec:
    """A Sandbox of this agent, as if admission had been passed by."""
    return sandbox().model_copy(update={"agent_id": agent_id})


@pytest.mark.parametrize("agent_id", ["rain", "Rain", "a.b", "a-b_c", "0", "a..b", "x" * 128])
def test_each_agent_has_a_directory_of_its_own(agent_id: str) -> None:
    found = made_from(resolved(of_agent(agent_id), under=policy(workspace=AGENTS), operated=OPERATED))

    assert found.agent == HostSource(f"/srv/agents/{agent_id}")


@pytest.mark.parametrize(
    "agent_id",
    [
        "",
        ".",
        "..",
        "../tio",
        "a/b",
        "/etc",
        "a/../../b",
        ".ssh",
        "-a",
        "a\n",
        "a\0",
        "ä",
        "{agentId}",
        "a b",
    ],
)
def test_no_agent_gets_out_of_it_by_its_name(agent_id: str) -> None:
    problem = resolved(of_agent(agent_id), under=policy(workspace=AGENTS), operated=OPERATED).problem

    assert problem is not None
    assert problem.reason is Reason.INVALID_CONFIG
    assert "agentId" in problem.message


@given(st.text(max_size=20))
def test_whatever_an_agent_is_called_it_stays_in_one_directory(agent_id: str) -> None:
    try:
        filled = fill_workspace(workspace(**AGENTS), agent_id)
    except ValueError:
        return
    assert filled.agent is not None
    assert filled.agent.host_path is not None
    parent, _, name = filled.agent.host_path.path.rpartition("/")
    assert (parent, name) == ("/srv/agents", agent_id)
    assert name not in {"", ".", ".."}


def test_every_place_is_filled() -> None:
    section = workspace(
        agent={"claim": {"name": "ws-{agentId}", "subPath": "{agentId}/{agentId}"}},
        volume={"hostPath": {"path": "/srv/{agentId}/copies"}},
    )

    under = policy(workspace=section)
    found = made_from(resolved(under=under, operated=pods(ceilings={"bindRoots": ["/srv"]})))

    assert found.agent == ClaimSource(name="ws-dev", sub_path="dev/dev")
    assert found.workspace == HostPathVolume("/srv/dev/copies")


def test_a_name_that_no_object_can_have_is_told() -> None:
    under = policy(workspace={"agent": {"configMap": {"name": "soul-{agentId}"}}})

    assert made_from(resolved(under=under, operated=pods())).agent == ConfigMapSource("soul-dev")
    problem = resolved(sandbox(agentId="Rain"), under=under, operated=pods()).problem
    assert problem is not None
    assert problem.reason is Reason.INVALID_CONFIG
    assert problem.message.startswith(
        "workspace.agent.configMap.name: with the agentId 'Rain' it is not valid"
    )


@pytest.mark.parametrize(
    "section",
    [
        AGENTS,
        {"volume": {"hostPath": {"path": "/srv/{agentId}"}}},
        {"agent": {"claim": {"name": "{agentId}"}}},
    ],
)
def test_who_shares_a_runtime_has_to_share_the_workspace(section: dict[str, Any]) -> None:
    under = policy(scope="shared", workspace=section)

    problem = resolved(under=under, operated=OPERATED).problem

    assert names_agent(workspace(**section))
    assert problem is not None
    assert problem.reason is Reason.WORKSPACE_AMBIGUOUS
    assert "{agentId}" in problem.message


def test_a_directory_for_all_may_be_shared() -> None:
    section = {"agent": {"hostPath": {"path": "/srv/all"}}, "access": "rw"}

    found = made_from(resolved(under=policy(scope="shared", workspace=section), operated=OPERATED))

    assert found.agent == HostSource("/srv/all")


def test_what_an_agents_entry_says_does_not_matter_where_all_share() -> None:
    under = policy(scope="shared", agents=[{"id": "dev", "workspace": AGENTS}])

    assert made_from(resolved(under=under, operated=OPERATED)).agent is None
