"""Evolution control plane, local stack and the atdp command."""
