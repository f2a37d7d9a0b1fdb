"""Who goes first: requests, their states, admission, queue policies, preemption."""
