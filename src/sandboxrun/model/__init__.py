"""Frozen values that every layer speaks. They import nothing of ours."""
