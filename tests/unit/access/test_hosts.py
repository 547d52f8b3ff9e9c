from __future__ import annotations

from layoutscope.access.host import HOSTS, SOURCES, HostProfile


def test_every_property_of_a_host_has_its_source():
    """Nothing differs between hosts without a word on where it comes from."""
    properties = set(HostProfile.__dataclass_fields__) - {"name"}
    assert properties == set(SOURCES)
    assert all(len(SOURCES[name]) == len(HOSTS) for name in properties)
