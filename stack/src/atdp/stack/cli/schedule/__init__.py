"""`atdp schedule …`: evaluations by the clock, on new data, or when another system asks."""
