"""What is asked of the engine comes down to a few words, whatever it is about."""

import pytest

from sandkeeper.runtimes.docker.operations import operation_of, result_of


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("GET", "/_ping", "ping"),
        ("GET", "/v1.47/info", "info"),
        ("GET", "/v1.47/events?since=1", "events"),
        ("GET", "/v1.47/containers/json?all=1", "container_list"),
        ("POST", "/v1.47/containers/create?name=x", "container_create"),
        ("GET", "/v1.47/containers/json/json", "container_inspect"),
        ("POST", "/v1.47/containers/abc/start", "container_start"),
        ("DELETE", "/v1.47/containers/abc?force=1", "container_remove"),
        ("POST", "/v1.47/containers/abc/exec", "exec_create"),
        ("POST", "/v1.47/exec/abc/start", "exec_start"),
        ("GET", "/v1.47/exec/abc/json", "exec_inspect"),
        ("GET", "/v1.47/images/docker.io/library/debian:12/json", "image_inspect"),
        ("GET", "/v1.47/networks/some", "network_inspect"),
        ("GET", "/v1.47/containers/abc/top", "other"),
        ("PATCH", "/v1.47/containers/abc/json", "other"),
        ("GET", "/", "other"),
        ("GET", "", "other"),
    ],
)
def test_an_operation_is_read_from_method_and_path(method: str, path: str, operation: str) -> None:
    assert operation_of(method, f"http+docker://localhost{path}") == operation


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (101, "success"),
        (204, "success"),
        (304, "success"),
        (404, "not_found"),
        (409, "refused"),
        (500, "error"),
        (None, "unanswered"),
    ],
)
def test_a_result_is_one_of_five(status: int | None, result: str) -> None:
    assert result_of(status) == result
