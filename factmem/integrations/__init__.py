"""Integrations of agent frameworks, one module each, imported on use.

Each module documents the objects that memory can be installed into, and how a run names its user. The module
`factmem.integrations.opentelemetry` is different: it observes the operations of a memory.
"""
