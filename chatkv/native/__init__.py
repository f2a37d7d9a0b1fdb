"""C kernels for CPUs, compiled at install time where there is a compiler; elsewhere torch serves."""
