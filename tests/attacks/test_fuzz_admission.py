"""Admission, fuzzed: the API server's opinion of a text against the models'.

The patterns are checked by two engines, the API server's and pydantic's, and rules are stated in two languages. What
one lets pass and the other refuses is either a hole or an object that the operator cannot read. Nothing is created.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiClient, ApiException
from pydantic import ValidationError

from api.server import Objects
from attacks.hostile import around, is_unicode
from attacks.register import On, attack
from attacks.strings import STRINGS, Place

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]

REFUSED = 422
TAKE_NEWLINES = {
    "Sandbox.container.env.*",
    "Sandbox.container.setupCommand",
    "AgentSandboxPolicy.container.env.*",
    "AgentSandboxPolicy.container.setupCommand",
    "AgentSandboxPolicy.pod.annotations.*",
}
"""Texts for programs, which may have several lines. That they stay one text is tested where they arrive."""


@pytest.fixture(scope="module")
def objects(api_client: ApiClient) -> Objects:
    return Objects(api_client)


def admitted(objects: Objects, place: Place, spec: dict[str, object]) -> bool:
    try:
        objects.would_create(place.resource, spec)
    except ApiException as error:
        if error.status != REFUSED:
            raise
        return False
    return True


def understood(place: Place, spec: dict[str, object]) -> bool:
    try:
        place.resource.spec.model_validate(spec)
    except ValidationError:
        return False
    return True


@attack(
    "a NUL in every string of both kinds, and in every key of a map",
    stopped_by="refused at apply, each one",
    on=On.ADMISSION,
)
def test_no_string_takes_a_nul(objects: Objects) -> None:
    assert all(understood(place, place.spec(str)) for place in STRINGS), "nothing else is wrong with them"
    taken = [
        str(place) for place in STRINGS if admitted(objects, place, place.spec(lambda text: f"{text}\0"))
    ]
    assert taken == []


@attack(
    "a newline at the end of every string of both kinds, where patterns that end in `$` may overlook it, and within",
    stopped_by="refused at apply, but for variables, `setupCommand` and annotations, which arrive as they are",
    on=On.ADMISSION,
)
def test_few_strings_take_a_newline(objects: Objects) -> None:
    for spoil in (lambda text: f"{text}\n", lambda text: f"{text[:1]}\n{text[1:]}"):
        taken = {str(place) for place in STRINGS if admitted(objects, place, place.spec(spoil))}
        assert taken == TAKE_NEWLINES


@attack(
    "any text in any string of both kinds: of its pattern, nearly so, and hostile",
    stopped_by="the API server and the models agree, on each",
    on=On.ADMISSION,
)
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(place=st.sampled_from(STRINGS), data=st.data())
def test_the_api_server_and_the_models_agree(objects: Objects, place: Place, data: st.DataObject) -> None:
    pattern = str(place.schema.get("pattern", "[A-Za-z_./-]{1,9}"))
    text = data.draw(around(st.from_regex(pattern)).filter(is_unicode))
    spec = place.spec(lambda _: text)
    assert admitted(objects, place, spec) == understood(place, spec)
