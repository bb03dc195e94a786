"""Table definitions as data: `<table>.json` with columns and field ids, partition, sort order and source topic."""
