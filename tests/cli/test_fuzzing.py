"""Of anything at all there comes a result or one short line: a small part of what tests/helpers/fuzzing.py tries."""

from __future__ import annotations

from tests.helpers.fuzzing import cases, found_wrong


def test_nothing_hangs_fails_late_or_ends_in_a_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = [fault for what, commands in cases(7, 25, tmp_path) for fault in found_wrong(what, commands)]
    assert not wrong, "\n".join(wrong)
