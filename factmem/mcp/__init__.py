"""factmem for any MCP client: what is known as tools, resources and prompts.

::

    factmem mcp --viewer maya --subject user:maya

A desktop client starts that command by itself. For Claude Desktop (``claude_desktop_config.json``) and Cursor
(``.cursor/mcp.json``)::

    {"mcpServers": {"factmem": {"command": "factmem", "args": ["mcp", "--scope", "/product/alpha"]}}}

and for VS Code (``.vscode/mcp.json``)::

    {"servers": {"factmem": {"type": "stdio", "command": "factmem", "args": ["mcp", "--scope", "/product/alpha"]}}}

The store is the user's own, which all commands of `factmem` use; another one is named with ``--store`` and an
absolute path, since a client starts the command where it likes. ``--http 127.0.0.1:8000``
serves many clients under ``http://127.0.0.1:8000/mcp`` instead. Several servers may share a store.

What clients see is what they are allowed to: ``--scope`` and ``--subject`` confine them, ``--viewer`` says whose
private facts they see, ``--read-only`` and ``--tools`` take tools away. What they write is kept apart, in
quarantine, until a person lets it in with ``factmem quarantine accept``, and they take back nothing but what clients
wrote, unless the server trusts them (``--trust``).
Taking back can be undone; erasing (`forget`) has to be allowed (``--allow-erase``).

In a program, `make_server` makes the same of a `factmem.Memory` or an `factmem.agent.AgentMemory`.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

try:
    from factmem.mcp.server import READING_TOOLS, WRITING_TOOLS, make_server, serve_http
except ImportError as _missing:
    if (_missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
        raise
    raise MissingPackageError("mcp>=2", extra="mcp") from _missing

__all__ = ["READING_TOOLS", "WRITING_TOOLS", "make_server", "serve_http"]
