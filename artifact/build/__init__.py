"""Building native kernels: the toolkit, and what surrounds the programs that it makes."""
