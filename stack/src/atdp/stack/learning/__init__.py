"""Learning while serving: the process behind `atdp learn`."""
