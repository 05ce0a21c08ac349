"""The trained networks of a run directory: `models/RUN/`, for each run whose incumbent was retrained and saved.

The files of a network are written before the journal says that it was retrained, so what it says is saved. They belong
to a retraining if `model.json`, the last to be written, has its configuration, settings and errors.
"""

from collections.abc import Mapping
from pathlib import Path

from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.ledger import Ledger, RetrainSettings
from fmnas.platform.experiment.run_directory import RunDirectory, read_json
from fmnas.search_spaces.files import write_aside

FACTS = "model.json"


def save_model(directory: RunDirectory, run: str, files: Mapping[str, bytes]) -> None:
    """Replace the trained network of a run. files: name -> content.

    Raises ExperimentFailed if there are no files, or the disk does not take them.
    """
    folder = directory.models / run
    if FACTS not in files:
        raise ExperimentFailed(f"{run}: its trainer returned no {FACTS} to save: retrain without --save")
    try:
        (folder / FACTS).unlink(missing_ok=True)
        for path in folder.glob("*.safetensors"):
            path.unlink()
        for name in sorted(files, key=FACTS.__eq__):
            write_aside(folder / name, files[name])
    except OSError as error:
        raise ExperimentFailed(f"{folder} cannot be written ({error.strerror}): fix that and repeat") from error


def saved_models(directory: RunDirectory, ledger: Ledger, settings: RetrainSettings | None = None) -> dict[str, Path]:
    """Return run -> the folder of its retrained incumbent, if that was saved. settings: default: the latest."""
    settings, folders = settings or ledger.retrain_settings, {}
    for run, retrained in ledger.current_retrained(settings).items():
        best, folder = ledger.runs[run].best, directory.models / run
        assert best is not None
        expected = {
            "configuration": best.trial.configuration,
            "epochs": settings.epochs,
            "images": settings.images,
            "test_images": retrained.test_images,
            "test_errors": list(retrained.errors),
        }
        if expected.items() <= read_json(folder / FACTS).items():
            folders[run] = folder
    return folders
