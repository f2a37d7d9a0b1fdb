"""Sizes as people write them."""

import pytest

from chatkv.cli.sizes import parse_size
from chatkv.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 << 20),
        ("1.5GB", 1_500_000_000),
        ("2g", 2 << 30),
        ("1073741824", 1 << 30),
        ("1 KiB", 1024),
        ("1kb", 1000),
        (" 1.5k ", 1536),
        ("7b", 7),
        ("1T", 1 << 40),
        ("1024TiB", 1 << 50),
    ],
)
def test_good_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--kv-memory") == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "1e9", "1.5.2G", "2 pigs", "1iB", "٣g", "0", "0.1", "1025T", "9" * 400]
)
def test_bad_sizes_are_told_with_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--kv-memory") as told:
        parse_size(text, "--kv-memory")
    assert told.value.exit_code == 2
