"""Look at a memory: the pages of the browsers as plain data, and the local web page that shows them.

`factmem.browse.browser.Browser` answers for both browsers; `factmem.browse.web` is the one for web browsers. Run
``factmem browse --web``; it needs the extra `browse`.
"""
