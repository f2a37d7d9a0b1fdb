"""Checkpoints, tokenizer and chat template, and the decoder's forward."""
