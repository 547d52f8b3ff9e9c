"""Orders: from a layout to the reads of a workload."""

from __future__ import annotations

from layoutscope.access.host import Costs, HostProfile
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.host import HOSTS, SOURCES, host_profile
from layoutscope.walk.hosttime import HostTime, host_time
from layoutscope.walk.order import Order, Work
from layoutscope.walk.orders import ORDERS, trace
from layoutscope.walk.records import random_records
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
