"""Lists of which only versions are read."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from sandkeeper.cluster.caches import versions_in
from sandkeeper.cluster.metadata import read_list


def page(*items: dict[str, Any], **metadata: str) -> bytes:
    return json.dumps(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "90", **metadata},
            "items": list(items),
        }
    ).encode()


POD = {
    "metadata": {
        "name": "rain",
        "namespace": "team",
        "uid": "0f6c",
        "resourceVersion": "17",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    }
}
NAMESPACE = {"metadata": {"name": "team", "resourceVersion": "3"}}


def test_of_each_object_it_tells_which_one_it_is_and_its_version() -> None:
    read = read_list(page(POD, NAMESPACE, **{"continue": "next", "remainingItemCount": "7"}))
    assert read == {
        "metadata": {"resourceVersion": "90", "continue": "next"},
        "items": [
            {"metadata": {"name": "rain", "namespace": "team", "resourceVersion": "17"}},
            {"metadata": {"name": "team", "resourceVersion": "3"}},
        ],
    }
    assert versions_in(read["items"] or ()) == {("team", "rain"): 17, ("", "team"): 3}


def test_a_list_of_nothing_may_say_null() -> None:
    assert read_list(b'{"metadata":{"resourceVersion":"1"},"items":null}')["items"] is None


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b'{"kind":"Status","status":"Success"}',
        page({"metadata": {"name": "rain"}}),
        page()[:-1],
    ],
)
def test_what_is_no_list_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValidationError):
        read_list(raw)
