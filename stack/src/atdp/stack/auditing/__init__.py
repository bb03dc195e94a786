"""Reading of the register's entries about access to raw data."""
