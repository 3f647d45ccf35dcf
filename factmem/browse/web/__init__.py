"""The local web page: the pages of `factmem.browse.browser.Browser` in a web browser, for one person on one machine.

It listens on 127.0.0.1 alone. A one-time token in the address that the command prints is exchanged for a cookie, forms
carry a token of their own, and requests of other sites and for other host names are refused. The pages work without
JavaScript; with it, searches answer while one types, and pages follow the changes of other processes.
"""

from __future__ import annotations

from factmem.errors import MissingPackageError

with MissingPackageError.if_missing(extra="browse"):
    import jinja2  # noqa: F401
    import python_multipart  # noqa: F401  # starlette reads forms with it, and misses it at the first form
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
