"""Run the fences of a page in one process, so that what they import is loaded once.

    python run_fences.py FENCES

FENCES is a JSON file with scripts, each with its folder and the address of the model that it may ask, or null.
Python ones run here, as ``__main__``, shell ones in a shell that stops at the first failure. A line with a form feed
stands before the output of each.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path


def main(fences: Path) -> None:
    for folder, script, model in json.loads(fences.read_text(encoding="utf-8")):
        os.chdir(folder)
        os.environ.pop("FACTMEM_MODEL", None)
        os.environ |= {"FACTMEM_MODEL": model} if model else {}
        print("\f", flush=True)
        if script.endswith(".py"):
            runpy.run_path(script, run_name="__main__")
        else:
            subprocess.run(["bash", "-euo", "pipefail", script], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
