"""Facts in readable files, one per scope and subject: `LocalFileMemoryProvider` over a `LocalStorage`.

Below the root, ``factmem.json`` says that this is a store and of which format. Facts lie in
``<tenant>/<kind>/<scope…>/<subject>[@<individual>].jsonl``; `factmem_file.names` says how names become file
names, `factmem_file.frames` what a line is, and `factmem_file.logs` what the kinds of file hold.
"""

from __future__ import annotations

from factmem_file.provider import LocalFileMemoryProvider
from factmem_file.storage import LocalStorage

__all__ = ["LocalFileMemoryProvider", "LocalStorage"]
