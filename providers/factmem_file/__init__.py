"""Facts in readable files, one per scope and subject: `LocalFileMemoryProvider` over a `LocalLogStorage`.

Below the root, ``factmem.json`` marks the folder as a store and holds its format. Facts are in
``<tenant>/<kind>/<scope…>/<subject>[@<individual>].jsonl``; `factmem_file.names` defines the file names,
`factmem_file.frames` the lines, and `factmem_file.logs` the kinds of file.
"""

from __future__ import annotations

from factmem_file.provider import LocalFileMemoryProvider

__all__ = ["LocalFileMemoryProvider"]
