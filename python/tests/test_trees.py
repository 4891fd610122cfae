"""Packing local files."""

import os
import tarfile
import tempfile
import unittest
from pathlib import Path

from denv import TreeRefused, pack_files


class PackFiles(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def names(self, to: str, source: Path) -> tuple[str, list[tuple[str, str]]]:
        (tree,) = pack_files({to: source})
        with tree.open() as file, tarfile.open(fileobj=file, mode="r|") as archive:
            return tree.to, [(entry.name, oct(entry.mode)) for entry in archive]

    def test_a_folder_is_the_same_archive_whenever_it_was_made(self) -> None:
        for name, order in (("one", ["b", "a"]), ("two", ["a", "b"])):
            (self.root / name).mkdir()
            for file in order:
                (self.root / name / file).write_text(file)
            os.utime(self.root / name / "a", (1, len(name) * 1000 + ord(name[0])))
        one, two = pack_files({"/app": self.root / "one"}) + pack_files({"/app": self.root / "two"})

        self.assertEqual(one.sha256, two.sha256)
        (self.root / "two" / "b").chmod(0o755)
        self.assertNotEqual(one.sha256, pack_files({"/app": self.root / "two"})[0].sha256)

    def test_a_folder_goes_below_its_place_and_a_file_takes_it(self) -> None:
        folder = self.root / "folder"
        (folder / "inner").mkdir(parents=True)
        (folder / "inner").chmod(0o750)
        run = folder / "inner" / "run.sh"
        run.write_text("true")
        run.chmod(0o755)

        self.assertEqual(
            self.names("/app", folder), ("/app", [("inner", "0o750"), ("inner/run.sh", "0o755")])
        )
        self.assertEqual(self.names("/app/go", run), ("/app", [("go", "0o755")]))
        self.assertEqual(self.names("/app/", run), ("/app/", [("run.sh", "0o755")]))

    def test_what_would_leave_the_folder_or_is_no_file_is_refused(self) -> None:
        (self.root / "inside").write_text("")
        (self.root / "stays").symlink_to("inside")
        pack_files({"/app": self.root})
        for target in ("../outside", "/etc/passwd"):
            link = self.root / "link"
            link.symlink_to(target)
            with self.assertRaisesRegex(TreeRefused, "leads out"):
                pack_files({"/app": self.root})
            link.unlink()
        os.mkfifo(self.root / "pipe")
        with self.assertRaisesRegex(TreeRefused, "pipe"):
            pack_files({"/app": self.root})
        with self.assertRaisesRegex(TreeRefused, "neither a file nor a folder"):
            pack_files({"/app": self.root / "none"})
        with self.assertRaisesRegex(TreeRefused, "absolute"):
            pack_files({"app": self.root})
