"""Dreamer V1: a world model from pixels, and an actor and a value learned in its imagination."""
