"""Event log, HTTP gateway, recording model proxy and importers of ATDP."""
