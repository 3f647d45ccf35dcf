"""The provider conformance kit: one spec per guarantee of a provider; see `factmem.testing.conformance.suites`."""
