"""The sessions that are open in the app, and the three places that list them."""
