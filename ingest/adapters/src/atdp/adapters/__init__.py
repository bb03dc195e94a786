"""Importers of trajectory formats."""
