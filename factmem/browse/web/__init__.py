"""The local web page: the pages of `factmem.browse.browser.Browser` in a web browser, for one person on one machine.

It listens on 127.0.0.1 alone. A one-time token in the address that the command prints is exchanged for a cookie, forms
carry a token of their own, and requests of other sites and for other host names are refused. The pages work without
JavaScript; with it, searches answer while one types, and pages follow the changes of other processes.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

try:
    import python_multipart  # noqa: F401  # starlette reads forms with it, and misses it at the first form

    from factmem.browse.web.app import make_app
    from factmem.browse.web.serving import serve
except ImportError as _missing:
    if (_missing.name or "").partition(".")[0] not in ("starlette", "uvicorn", "jinja2", "python_multipart"):
        raise
    raise MissingPackageError(_missing.name or "starlette", extra="browse") from _missing

__all__ = ["make_app", "serve"]
