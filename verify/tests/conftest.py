"""Lets tests import the modules beside them."""

from __future__ import annotations

import sys
from pathlib import Path

pytest_plugins = ["shuffled"]

sys.path.insert(0, str(Path(__file__).parent))
