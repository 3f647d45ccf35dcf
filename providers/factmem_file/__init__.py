"""Facts in readable files, one per scope and subject: `LocalFileMemoryProvider` over a `LocalLogStorage`.

Below the root, ``factmem.json`` marks the folder as a store and holds its format. Facts are in
``<tenant>/<kind>/<scope…>/<subject>[@<individual>].jsonl``; `factmem_file.log_storage` defines the file
names and the lines, and `factmem_file.logs` the kinds of file.
"""

from __future__ import annotations

from factmem_file.provider import LocalFileMemoryProvider

__all__ = ["LocalFileMemoryProvider"]
