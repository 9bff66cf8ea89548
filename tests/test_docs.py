"""Every code block of the README and the docs runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Blocks that show data, not something to run.
SHOWN = {"text", "json", "mermaid"}


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def check_command(line: str, folder: Path) -> None:
    """Runs a shell line of a page, or checks as much of it as a test can."""
    words = shlex.split(line, comments=True)
    if words[0] == "engram-rs":
        words = [str(Path(sys.executable).with_name("engram-rs")), *words[1:]]
    elif words[0] == "make":
        # The targets build and test: that they exist and resolve is what can be asked from within a test.
        words, folder = ["make", "-n", *words[1:]], ROOT
    elif words[:2] == ["pip", "install"]:
        manifest = (ROOT / "pyproject.toml").read_text()
        for extra in re.findall(r"\[(.*?)\]", line):
            for name in extra.split(","):
                assert f"\n{name} = [" in manifest, f"no extra {name!r}"
        return
    elif words[0] == ".":
        assert words[1] == ".venv/bin/activate"
        return
    elif words[:2] == ["python", "-m"]:
        assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file() or (ROOT / words[2]).is_dir(), line
        return
    else:
        pytest.fail(f"no way to test the command {line!r}")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_code_blocks(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    names: dict = {"__name__": "__page__"}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, f"{page.name}", "exec"), names)
        elif language == "sh":
            for line in filter(None, map(str.strip, code.splitlines())):
                if not line.startswith("#"):
                    check_command(line, tmp_path)
        else:
            assert language in SHOWN, f"{page.name}: a block in {language!r} is not tested"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
