"""All that is broken on purpose. Each has to be found."""

from __future__ import annotations

from .changing_cells import CHANGING_SABOTAGES
from .leader_cells import LEADER_SABOTAGES
from .sabotage import SABOTAGES
from .sharing_sabotages import SHARING_SABOTAGES

ALL_SABOTAGES = (*SABOTAGES, *SHARING_SABOTAGES, *CHANGING_SABOTAGES, *LEADER_SABOTAGES)
