"""Index of a tenant: its log as columns, its current records, and searches over them."""
