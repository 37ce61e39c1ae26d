"""``python -m pinyon_verify locks``, ``python -m pinyon_verify soak``."""

from __future__ import annotations

import sys

from pinyon_verify.cli import main

if __name__ == "__main__":
    sys.exit(main())
