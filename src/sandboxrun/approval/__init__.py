"""Approval: pending questions, answers, standing grants and consents, as rows of the store."""
