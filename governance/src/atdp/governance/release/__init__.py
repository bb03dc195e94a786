"""Orders of stewards about quarantined records: to govern one again, or to discard it.

An order is a signed record of its own topic, written to the partition number of the raw record that
it is about. The governance stage carries it out in its transactions.
"""
