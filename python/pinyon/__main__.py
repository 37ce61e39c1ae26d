"""``python -m pinyon`` is the command ``pinyon``."""

import sys

from pinyon.cli import main

if __name__ == "__main__":
    sys.exit(main())
