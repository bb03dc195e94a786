"""The closed loop on one machine: `atdp demo`."""
