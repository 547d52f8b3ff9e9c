"""Images inside of containers: Apple disk images, read in place.

Input: a source from :mod:`layoutscope.image`. Output: a source of the disk inside.
"""

from __future__ import annotations

from layoutscope.image.containers.opening import open_image

__all__ = ["open_image"]
