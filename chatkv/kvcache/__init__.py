"""The cache core: token ids in, block ids out. Pure Python and numpy; knows nothing of models."""
