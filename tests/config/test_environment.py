"""Cleaning the environment: secret-like names stay out unless the policy lets them in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.examples import container, made_from, policy, resolved, sandbox
from sandkeeper.api.conditions import Reason
from sandkeeper.config.environment import check, clean, is_secret_like

SECRET_LIKE = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "MINIMAX_API_KEY",
    "ELEVENLABS_API_KEY",
    "SYNTHETIC_API_KEY",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "COHERE_API_KEY",
    "AI_GATEWAY_API_KEY",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "LINE_CHANNEL_SECRET",
    "LINE_CHANNEL_ACCESS_TOKEN",
    "OPENCLAW_GATEWAY_TOKEN",
    "OPENCLAW_GATEWAY_PASSWORD",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SECRET_KEY",
    "AWS_SESSION_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "MY_ADMIN_KEY",
    "API_KEY",
    "MYAPI_KEY",
    "TOKEN",
    "MYTOKEN",
    "PGPASSWORD",
    "SSH_PRIVATE_KEY",
    "CLIENT_SECRET",
    "DJANGO_SECRET_KEY",
    "github_token",
    "Db_Password",
]
HARMLESS = [
    "LANG",
    "LC_ALL",
    "PATH",
    "HOME",
    "TZ",
    "NODE_ENV",
    "TOKENIZER",
    "TOKEN_PATH",
    "PASSWORD_FILE",
    "SECRETARY",
    "API_KEY_ID",
    "AWS_ACCESS_KEY_ID",
    "AWS_REGION",
    "ADMIN_KEYS",
    "PUBLIC_KEY",
    "SECRETS",
]


@pytest.mark.parametrize("name", SECRET_LIKE)
def test_a_secret_like_name_is_left_out(name: str) -> None:
    assert is_secret_like(name)
    assert clean({name: "x", "A": "b"}, allowed=()).env == {"A": "b"}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_resembles_one_gets_in(name: str) -> None:
    assert not is_secret_like(name)


@given(st.dictionaries(st.sampled_from([*SECRET_LIKE, *HARMLESS]), st.text(max_size=3)))
def test_whatever_gets_in_is_harmless_and_whatever_does_not_is_named(env: dict[str, str]) -> None:
    cleaned = clean(env, allowed=())

    assert not any(map(is_secret_like, cleaned.env))
    assert sorted([*cleaned.env, *cleaned.filtered]) == sorted(env)
    assert list(cleaned.filtered) == sorted(cleaned.filtered)


def test_the_policy_lets_single_names_in_by_their_exact_spelling() -> None:
    cleaned = clean({"GH_TOKEN": "x", "gh_token": "y", "NPM_TOKEN": "z"}, allowed=["GH_TOKEN"])

    assert cleaned.env == {"GH_TOKEN": "x"}
    assert cleaned.filtered == ("NPM_TOKEN", "gh_token")


def test_what_was_left_out_is_told() -> None:
    under = policy(container={"env": {"GH_TOKEN": "x", "NPM_TOKEN": "y"}, "allowSecretEnv": ["NPM_TOKEN"]})
    spec = sandbox(scope="session", container={"env": {"OPENAI_API_KEY": "z", "TZ": "UTC"}})

    resolution = resolved(spec, under=under)

    assert resolution.filtered_env == ("GH_TOKEN", "OPENAI_API_KEY")
    assert made_from(resolution).env == {"LANG": "C.UTF-8", "NPM_TOKEN": "y", "TZ": "UTC"}


def test_an_agents_list_replaces_the_policys() -> None:
    under = policy(
        container={"env": {"A_TOKEN": "a", "B_TOKEN": "b"}, "allowSecretEnv": ["A_TOKEN"]},
        agents=[{"id": "dev", "container": {"allowSecretEnv": ["B_TOKEN"]}}],
    )

    assert resolved(under=under).filtered_env == ("A_TOKEN",)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("A", "x\0y", "NUL"),
        ("GH_TOKEN", "\0", "NUL"),
        ("A", "€" * 65536, "128 KiB"),
        ("A", "x" * (128 * 1024 - 2), "128 KiB"),
        ("A-B", "x", "a name that is none"),
        ("", "x", "a name that is none"),
        ("A\n", "x", "a name that is none"),
        ("A=B", "x", "a name that is none"),
        ("Ä", "x", "a name that is none"),
    ],
)
def test_what_no_program_can_be_given(name: str, value: str, why: str) -> None:
    (problem,) = check({name: value})

    assert problem.reason is Reason.INVALID_CONFIG
    assert why in problem.message


def test_the_longest_value_that_admission_lets_in_is_given() -> None:
    assert not list(check({"A" * 256: "x" * 32768, "B": "A" * 100 + "==", "EMPTY": ""}))


def test_the_longest_value_that_linux_gives_to_a_program_is_given() -> None:
    # With the name, the equals sign and the NUL at its end these are 128 KiB.
    assert not list(check({"A": "x" * (128 * 1024 - 3)}))


def test_a_message_never_holds_a_value() -> None:
    unchecked = container().model_copy(update={"env": {"A": "hunter2\0"}})
    under = policy().model_copy(update={"container": unchecked})

    problem = resolved(under=under).problem

    assert problem is not None
    assert "hunter2" not in problem.message
