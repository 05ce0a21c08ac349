"""Which errors of a store mean that it will never take a trial, and which may pass."""

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    BAD_REQUEST,
    INTERNAL_ERROR,
    INVALID_PARAMETER_VALUE,
    RESOURCE_EXHAUSTED,
    TEMPORARILY_UNAVAILABLE,
)
from sqlalchemy import exc

from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.store import MlflowStore


def wrapped(error: Exception, code: int) -> Exception:
    """As MLflow raises what its database raised."""
    outer = MlflowException(str(error), error_code=code)
    outer.__cause__ = error
    return outer


CUT_OFF = exc.OperationalError("SELECT", {}, Exception("server closed the connection unexpectedly"))
CLOSED = exc.InterfaceError("SELECT", {}, Exception("connection already closed"))
TOO_LONG = exc.DataError("INSERT", {}, Exception("value too long for type character varying(250)"))


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (CUT_OFF, False),
        (wrapped(CUT_OFF, TEMPORARILY_UNAVAILABLE), False),
        (wrapped(CLOSED, BAD_REQUEST), False),
        (exc.PendingRollbackError("this transaction was rolled back"), False),
        (MlflowException("no more than 60 requests a minute", error_code=RESOURCE_EXHAUSTED), False),
        (MlflowException("the server is restarting", error_code=INTERNAL_ERROR), False),
        (ConnectionResetError("reset by peer"), False),
        (wrapped(TOO_LONG, BAD_REQUEST), True),
        (MlflowException("run is deleted", error_code=INVALID_PARAMETER_VALUE), True),
        (ValueError("not a metric"), True),
    ],
)
def test_a_connection_that_broke_is_no_refusal(error: Exception, refused: bool) -> None:
    assert MlflowStore(TrackingSettings("http://127.0.0.1:5000", "toy", "abc")).is_refusal(error) is refused
