"""Graph rewrites, one a file; base.py runs them, recipes.py orders them."""
