"""Tables of numbers, and what is tuned on them. scikit-learn and xgboost are needed where they are used."""
