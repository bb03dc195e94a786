"""Pieces that every converter between events and documents of another format needs."""
