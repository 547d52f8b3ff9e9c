"""Orders: from a layout to the reads of a workload."""

from __future__ import annotations

from layoutscope.access.host import Costs, HostProfile
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.data import random_records
from layoutscope.walk.host import HOSTS, SOURCES, HostTime, host_profile, host_time
from layoutscope.walk.orders import ORDERS, Order, Work, trace
from layoutscope.walk.score import Score, score

__all__ = [
    "HOSTS",
    "ORDERS",
    "SOURCES",
    "AccessTrace",
    "Costs",
    "HostProfile",
    "HostTime",
    "Order",
    "Score",
    "Work",
    "host_profile",
    "host_time",
    "random_records",
    "score",
    "trace",
]
