from __future__ import annotations

import pytest

from layoutscope.api.workloads import check_workload
from layoutscope.errors import UsageError
from layoutscope.options import Predict, Workload, fill


@pytest.mark.parametrize(
    ("keyword", "meant"), [("oder", r" \(did you mean 'order'\?\)"), ("top", ""), ("what_ifs", "")]
)
def test_unknown_keywords_of_a_workload_are_refused(keyword, meant):
    """A slip of the pen is told, and what only a prediction knows is no part of a trace's workload."""
    with pytest.raises(TypeError, match=f"a workload has no '{keyword}'{meant}. Choose from: order, host"):
        check_workload({keyword: 1})


def test_a_prediction_asks_more_than_a_walk():
    """What is left out is as it is without."""
    asked = check_workload({"order": "names", "top": 3}, Predict)
    assert asked == {**fill(Predict, {}), "order": "names", "top": 3}
    assert asked.keys() > fill(Workload, {}).keys() == check_workload({}).keys()
    assert (check_workload({})["order"], check_workload({})["host"]) == ("fts", None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threads": 0}, "threads must be a whole number, 1 or more: it is 0"),
        ({"passes": 0}, "passes must be a whole number, 1 or more: it is 0"),
        ({"memory_bytes": "256KiB"}, "memory_bytes must be a whole number, 0 or more: it is '256KiB'"),
        ({"order": "paths", "paths": "list.txt"}, "paths must be a sequence of paths: this is one text"),
    ],
)
def test_values_of_another_kind_are_refused(wrong, said):
    """No threads were taken for one, and the letters of a file's name for paths, of which none is on the volume."""
    with pytest.raises(UsageError, match=said):
        check_workload(wrong)
