"""Surveys in browsers: their pages, and who may answer."""
