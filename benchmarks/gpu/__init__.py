"""What to measure on a GPU that is lent for half an hour: `make gpu`."""
