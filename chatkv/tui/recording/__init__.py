"""The screen as a film: frames that differ, kept small, written as one SVG that plays."""
