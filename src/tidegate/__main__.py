"""`python -m tidegate`: the same as the command `tidegate`."""

from __future__ import annotations

import sys

from tidegate.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
