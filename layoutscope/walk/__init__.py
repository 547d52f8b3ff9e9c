"""Orders: from a layout to the reads of a workload.

An order lists the nodes and file pieces that a program touches, in sequence (``orders``, with one module for each kind
of program). Whatever the host has cached is dropped, and the rest becomes requests (``visits``, ``cache``): the
access trace that :mod:`layoutscope.drive` serves. Nothing here reads the disk. File systems describe what their drivers
do differently, in the terms of :mod:`layoutscope.access`.
"""

from __future__ import annotations

from layoutscope.access.driver import Costs, HostProfile
from layoutscope.access.trace import AccessTrace
from layoutscope.walk.data import random_records
from layoutscope.walk.host import HOSTS, HostTime, host_profile, host_time
from layoutscope.walk.orders import ORDERS, Order, Work, trace
from layoutscope.walk.score import Score, score

__all__ = [
    "HOSTS",
    "ORDERS",
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
