"""Pictures of what a run has stored and of what its agent does."""
