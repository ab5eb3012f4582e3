"""The edges people and programs touch: parsing and rendering only."""
