"""Small C kernels for CPUs, built at install time where there is a compiler; torch serves where there is none."""
