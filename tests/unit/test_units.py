from __future__ import annotations

from layoutscope.units import format_share, format_value


def test_nearly_all_is_not_all():
    """A share just below 1 never rounds up to all, and one just above 0 never down to nothing."""
    assert format_share(0.9999) == "99.99 %"
    assert format_share(0.99999999) == "99.99 %"
    assert format_share(0.00001) == "0.001 %"
    # One clump, two clumps; no value is a dash.
    assert format_value(1, "clumps") == "1 clump"
    assert format_value(2, "clumps") == "2 clumps"
    assert format_value(None, "clumps") == "-"
