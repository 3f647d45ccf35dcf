"""An MCP server: memory for any MCP client, as tools, resources and prompts.

    factmem mcp --viewer maya --subject user:maya

Desktop clients start this command themselves. For Claude Desktop (``claude_desktop_config.json``) and Cursor
(``.cursor/mcp.json``):

    {"mcpServers": {"factmem": {"command": "factmem", "args": ["mcp", "--scope", "/product/alpha"]}}}

and for VS Code (``.vscode/mcp.json``):

    {"servers": {"factmem": {"type": "stdio", "command": "factmem", "args": ["mcp", "--scope", "/product/alpha"]}}}

The default store is the user's own, which all commands of `factmem` use. ``--store`` names another one, by an absolute
path, since clients start the command in any directory. ``--http 127.0.0.1:8000`` serves many clients at
``http://127.0.0.1:8000/mcp`` instead. Several servers may share a store.

Options limit the clients: ``--scope`` and ``--subject`` confine them, ``--viewer`` names the user whose private facts
they see, ``--read-only`` and ``--tools`` remove tools. Their facts are quarantined until a person releases them with
``factmem quarantine accept``, up to a quota (``--max-waiting``), and they can retract only facts written by clients
alone, unless the server trusts them (``--trust``). A retraction can be undone. Erasing (`forget`) is available with
``--trust --allow-erase`` only: clients name themselves, so that none can prove which facts are its own.

In a program, `make_server` returns such a server for a `factmem.Memory` or a `factmem.AgentMemory`.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

try:
    from factmem.mcp.server import make_server
except ImportError as _missing:
    if (_missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
        raise
    raise MissingPackageError("mcp>=2", extra="mcp") from _missing

__all__ = ["make_server"]
