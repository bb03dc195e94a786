"""The world of `atdp demo`: an order desk, its customers, its agents, and the closed loop."""
