"""Figures and tables made from the CSV files of runs."""
