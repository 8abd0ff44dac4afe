"""Pictures and tables, drawn from the CSV files of runs."""
