"""The `atdp` command and the local stack."""
