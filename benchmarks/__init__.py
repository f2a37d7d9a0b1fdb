"""How its makers measure chatkv, from a checkout: ``python -m benchmarks``. Not in the wheel."""
