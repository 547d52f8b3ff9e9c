from __future__ import annotations

import pytest

from layoutscope.api.workloads import check_workload
from layoutscope.errors import UsageError
from layoutscope.options import Predict, Workload, fill


@pytest.mark.parametrize(
    ("keyword", "meant"), [("oder", r" \(did you mean 'order'\?\)"), ("top", ""), ("what_ifs", "")]
)
def test_unknown_keywords_of_a_workload_are_refused(keyword, meant):
    """A misspelt keyword is reported, and options of a prediction are not part of a trace's workload."""
    with pytest.raises(TypeError, match=f"a workload has no '{keyword}'{meant}. Choose from: order, host"):
        check_workload({keyword: 1})


def test_a_prediction_asks_more_than_a_walk():
    """Omitted options have their defaults."""
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
    """Zero threads are not taken for one, nor the letters of a file's name for paths."""
    with pytest.raises(UsageError, match=said):
        check_workload(wrong)
