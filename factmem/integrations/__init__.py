"""Frameworks that agents are built with, one module each, imported when it is used.

A module's docstring says what memory can be put into there, and how a run says whom it works for. One module tells
what memory does, instead: `factmem.integrations.opentelemetry`.
"""
