"""The index of a tenant: its log as columns, what is current of it, and the means to search that."""
