"""The containers of a key are found without looking at all of them, and are the right ones."""

from hypothesis import given
from hypothesis import strategies as st

from sandkeeper.config.keys import RuntimeKey
from sandkeeper.runtimes.docker.inventory import Inventory, Seen

KEYS = [RuntimeKey(namespace="n", namespace_uid="u", policy="p", scope=f"agent:{one}") for one in range(3)]
CHANGES = st.tuples(
    st.sampled_from("abcd"), st.none() | st.builds(Seen, st.sampled_from(KEYS), st.booleans())
)


@given(st.lists(CHANGES))
def test_it_is_a_mapping_with_an_index(changes: list[tuple[str, Seen | None]]) -> None:
    inventory, plain = Inventory(), dict[str, Seen]()
    for container_id, change in changes:
        if change is None:
            inventory.drop(container_id)
            plain.pop(container_id, None)
        else:
            inventory.put(container_id, change)
            plain[container_id] = change
    for one in (inventory, Inventory(inventory)):
        assert dict(one) == plain
        assert one.of_keys() == {seen.key for seen in plain.values()}
        for key in KEYS:
            assert one.ids(key) == sorted(found for found, seen in plain.items() if seen.key == key)
