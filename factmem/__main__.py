"""``python -m factmem``: the same as ``factmem``."""

from __future__ import annotations

from factmem.cli import main

if __name__ == "__main__":
    main()
