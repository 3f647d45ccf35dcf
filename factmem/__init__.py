"""factmem: a typed fact store for AI agents."""
