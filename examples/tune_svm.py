"""Minimise the classification error of a support vector machine on scikit-learn's wine table."""

from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fmnas.search_spaces import Nominal, Real
from fmnas.trainers import objective

FEATURES, CLASSES = load_wine(return_X_y=True)


@objective([Real("C", 1e-3, 1e3, log=True), Real("gamma", 1e-4, 10.0, log=True), Nominal("kernel", ["linear", "rbf"])])
def svm(configuration):
    model = make_pipeline(StandardScaler(), SVC(**configuration))
    return 1 - cross_val_score(model, FEATURES, CLASSES, cv=5).mean()
