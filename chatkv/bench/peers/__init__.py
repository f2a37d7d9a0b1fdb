"""Engines that ``chatkv bench compare`` measures, each in a process of its own."""
