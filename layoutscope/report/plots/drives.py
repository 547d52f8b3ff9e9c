"""Seek curves and random-read latencies of drives as one offline page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.drive.seek import seek_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.drive import DriveProfile
    from layoutscope.results.drives import DriveFacts

SEEK_POINTS = 400
"""Points of a seek curve that are drawn."""


def drive_page(drives: Sequence[DriveFacts]) -> str:
    """Draw the seek curves of the drives that have an arm, and the latencies of all."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(1, 2, subplot_titles=("Seek time by distance", "Random 4 KiB reads"))
    for item in drives:
        curve = seek_points(item.profile)
        if curve is not None:
            figure.add_trace(go.Scatter(x=curve[0], y=curve[1], name=item.profile.name), 1, 1)
        ordered = np.sort(item.latencies_ms)
        share = np.linspace(0, 100, len(ordered))
        figure.add_trace(go.Scatter(x=ordered, y=share, name=item.profile.name), 1, 2)
    figure.update_xaxes(title_text="distance, share of a full stroke", row=1, col=1)
    figure.update_yaxes(title_text="ms", row=1, col=1)
    figure.update_xaxes(title_text="ms", type="log", row=1, col=2)
    figure.update_yaxes(title_text="% of reads that are no slower", row=1, col=2)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def seek_points(profile: DriveProfile) -> tuple[list[float], list[float]] | None:
    """Return distances in shares of a stroke and times in ms; None for a drive without an arm of its own."""
    if profile.kind != "hdd":
        return None
    from layoutscope.drive.geometry import total_cylinders

    cylinders = int(total_cylinders(profile))
    curve = seek_curve(profile, cylinders)
    at = np.unique(np.geomspace(1, cylinders - 1, SEEK_POINTS).astype(np.int64))
    return (at / cylinders).tolist(), curve[at].tolist()
