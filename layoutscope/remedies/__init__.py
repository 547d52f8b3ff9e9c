"""What could be done about a volume that takes long: remedies, each a changed layout, order or drive.

A remedy says what it changes and leaves the rest to the walk and drive models that predict the time as it is; the
planning tries all of them on one volume and ranks them.
"""

from __future__ import annotations
