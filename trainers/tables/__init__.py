"""Tables of numbers: support vectors and boosted trees. scikit-learn and xgboost are needed where they are used."""
