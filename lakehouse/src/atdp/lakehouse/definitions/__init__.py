"""Table definitions as data.

`<table>.json` holds columns and field ids, partition, sort order and source topic.
"""
