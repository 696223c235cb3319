"""Sample models, trained on scikit-learn's digits."""
