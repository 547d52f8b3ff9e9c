"""The zstd of the standard library, from Python 3.14 on; before that, the same as a package."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
