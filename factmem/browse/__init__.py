"""Look at a memory: the pages of the browsers as plain data, and the two browsers that show them.

`factmem.browse.browser.Browser` answers for both: `factmem.browse.terminal`, run by ``factmem browse``, and
`factmem.browse.web`, run by ``factmem browse --web``. They need the extra `browse`.
"""
