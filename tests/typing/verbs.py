"""What type checkers make of the library as callers write it: never run, held by ``test_typing.py``.

Each ignored error is one that must be there; mypy tells of those that are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import polars as pl

import layoutscope
from layoutscope.access.trace import AccessTrace
from layoutscope.api.session import Session
from layoutscope.drive import DriveProfile, ServiceResult
from layoutscope.options import ReadOptions  # noqa: TC001  (the annotation is looked at)
from layoutscope.results.check import CheckResult, Verification
from layoutscope.results.compare import Comparison, Series
from layoutscope.results.fleet import FleetResult, QueryResult
from layoutscope.results.inspect import Extract, Inspection, StateLine
from layoutscope.results.predict import DriveFacts, PredictResult
from layoutscope.results.recorded import KitResult, ReplayResult
from layoutscope.results.scan import ScanResult, VolumeScan
from layoutscope.tables import VolumeLayout
from layoutscope.tables.frames import WalkCosts

IMAGE = Path("disk.img")

# Each verb returns its own kind of result, whatever decorates it.
assert_type(layoutscope.scan(IMAGE, drives="generic-7200", partition=1), ScanResult)
assert_type(layoutscope.predict(IMAGE, order="names", top=3, sweep=True), PredictResult)
assert_type(layoutscope.predict(IMAGE, workload={"order": "names"}), PredictResult)
assert_type(layoutscope.trace(IMAGE, order="paths", paths=["/a"]), AccessTrace)
assert_type(layoutscope.replay("walk.csv", queue_depth=2, order="fts"), ReplayResult)
assert_type(layoutscope.validate("layoutscope-kit.tar.gz", drive="generic-7200"), KitResult)
assert_type(layoutscope.compare(IMAGE, "other.img"), Comparison)
assert_type(layoutscope.compare([IMAGE, "other.img"], drives=["sata-ssd"]), Comparison)
assert_type(layoutscope.series([IMAGE], by="time"), Series)
assert_type(layoutscope.query("fleet", "SELECT 1", partition=1), QueryResult)
assert_type(layoutscope.batch([IMAGE, "*.dmg"], "fleet", resume=True, drives="sata-ssd"), FleetResult)
assert_type(layoutscope.inspect(IMAGE, cnid=2), Inspection)
assert_type(layoutscope.checkpoints(IMAGE), tuple[StateLine, ...])
assert_type(layoutscope.check(IMAGE, no_journal=True), CheckResult)
assert_type(layoutscope.verify(IMAGE), Verification)
assert_type(layoutscope.extract(IMAGE, "small.img", force=True), Extract)
assert_type(layoutscope.read_layouts(IMAGE), tuple[VolumeLayout, ...])
assert_type(layoutscope.drives("generic-7200"), tuple[DriveFacts, ...])
assert_type(layoutscope.load_profile("generic-7200"), DriveProfile)
assert_type(layoutscope.service(layoutscope.trace(IMAGE), layoutscope.load_profile("sata-ssd")), ServiceResult)

# A session is what it says, and so are its members.
with layoutscope.open(IMAGE, volume="Data") as session:
    assert_type(session, Session)
    assert_type(session.scan(host="macos"), ScanResult)
    assert_type(session.predict(order="copy"), PredictResult)
    assert_type(session.trace(stat=False), AccessTrace)
    assert_type(session.volumes["Data"], VolumeLayout)
    assert_type(session.volumes[1], VolumeLayout)
    assert_type(session.volume.costs("generic-7200", order="names"), WalkCosts)
    assert_type(session.volume.nodes, pl.DataFrame)
    assert_type(layoutscope.scan(session), ScanResult)

# Frames are frames.
result = layoutscope.scan(IMAGE)
assert_type(result.metrics, pl.DataFrame)
assert_type(result.volume, VolumeScan)
assert_type(layoutscope.predict(IMAGE).directories, pl.DataFrame)
assert_type(layoutscope.compare(IMAGE, IMAGE).frame, pl.DataFrame)

# What is misspelt or of another type is an error before anything runs.
layoutscope.scan(IMAGE, drive="generic-7200")  # type: ignore[call-arg]
layoutscope.scan(IMAGE, sweep="yes")  # type: ignore[arg-type]
layoutscope.predict(IMAGE, ordr="names")  # type: ignore[call-arg]
layoutscope.predict(IMAGE, workload={"ordr": "names"})  # type: ignore[arg-type]
layoutscope.open(IMAGE, partitoin=1)  # type: ignore[call-arg]
layoutscope.scna(IMAGE)  # type: ignore[attr-defined]
layoutscope.inspect(IMAGE, cnid="2")  # type: ignore[arg-type]
layoutscope.compare(1, 2)  # type: ignore[arg-type]
unknown: ReadOptions = {"volum": "Data"}  # type: ignore[typeddict-unknown-key]
