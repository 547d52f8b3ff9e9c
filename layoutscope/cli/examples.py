"""Two worked examples of each command: what is typed, and what it is for."""

from __future__ import annotations

from typing import Final

Examples = tuple[tuple[str, str], ...]

OVERVIEW: Final[Examples] = (
    ("layoutscope scan disk.img", "How long listing every file takes, why, and what would help."),
    ("layoutscope predict --help", "The options of a verb, with examples."),
    ("layoutscope explain clump", "What a word, a metric or the code of a finding means."),
)

EXAMPLES: Final[dict[str, Examples]] = {
    "scan": (
        ("layoutscope scan disk.img", "One screen: how long listing every file takes, why, and what would help."),
        ("layoutscope scan disk.img:Data --details", "Everything that was measured of the volume Data."),
    ),
    "map": (
        ("layoutscope map disk.img -o map.html", "A page to open in a browser."),
        ("layoutscope map fresh.img aged.img -o ages.html --no-names", "Two images on one scale, without names."),
    ),
    "inspect": (
        ("layoutscope inspect disk.img --path /Users/me/notes.txt", "Where a file is kept, record by record."),
        ("layoutscope inspect disk.img --at 0x1400000", "What lies at a place, and whose it is."),
    ),
    "check": (
        ("layoutscope check disk.img", "Every contradiction, with its code and its place."),
        ("layoutscope check monday.img friday.img", "What became wrong from one image to the other."),
    ),
    "explain": (
        ("layoutscope explain clump", "What a word means."),
        ("layoutscope explain node-invalid", "What a finding says, and what to do."),
    ),
    "cache": (
        ("layoutscope cache", "Where decompressed images are kept, and which."),
        ("layoutscope cache clear", "Remove them."),
    ),
    "predict": (
        ("layoutscope predict disk.img --order names --drive sata-ssd", "Names alone, on a solid-state drive."),
        ("layoutscope predict disk.img --what-if outer-zone --top 20", "The start of the drive, and what costs most."),
    ),
    "plan": (
        ("layoutscope plan disk.img", "What would help, how to do it, what it takes."),
        ("layoutscope plan disk.img --host macos --drive generic-7200 --all", "As on a Mac; what would not help, too."),
    ),
    "compare": (
        ("layoutscope compare fresh.img aged.img", "What changed, and what that costs."),
        ("layoutscope compare disk.img:1 disk.img:Data", "Two volumes of one disk."),
    ),
    "series": (
        ("layoutscope series may.lscope june.lscope july.lscope", "How a volume ages."),
        ("layoutscope series week*.img --by time --plot aging.html", "In order of their last change, as curves."),
    ),
    "batch": (
        ("layoutscope batch archive/ -o fleet", "Every image below a folder: captures, and tables over all."),
        ("layoutscope batch @disks.txt -o fleet --resume -j 8", "What a list names and is not there yet."),
    ),
    "query": (
        ("layoutscope query fleet --list", "What can be asked for: views, columns, units."),
        ("layoutscope query fleet 'SELECT path, status FROM sources' -o all.csv", "An answer as a file."),
    ),
    "report": (
        ("layoutscope report fleet -o fleet.html", "A page over all that a batch has read."),
        ("layoutscope report fleet -o fleet.html --maps", "And a map of each image, a click away."),
    ),
    "trace": (
        ("layoutscope trace disk.img -o walk.csv", "The reads of a listing, one a line."),
        ("layoutscope trace disk.img --order names -o walk.fio --disk /dev/sdb", "To be replayed by fio."),
    ),
    "replay": (
        ("layoutscope replay walk.csv --drive generic-7200", "What a drive makes of recorded reads."),
        ("layoutscope replay fs_usage.txt --against disk.img", "How well the prediction meets them."),
    ),
    "forecast": (
        ("layoutscope forecast disk.img --cycles 20", "What twenty cycles of replaced files make of a volume."),
        ("layoutscope forecast may.lscope june.lscope --plot next.html", "At the pace of the last month, as curves."),
    ),
    "validate": (
        ("layoutscope validate layoutscope-kit.tar.gz", "What a Mac measured, beside what is predicted for it."),
        ("layoutscope validate layoutscope-kit.tar.gz --drive mine.toml --json", "On its own drive, for programs."),
    ),
    "drives": (
        ("layoutscope drives", "Which profiles there are, and which to take."),
        ("layoutscope drives fit mine --random-ms 12.5 --rate-mb-s 140 -o mine.toml", "A profile of your own drive."),
    ),
    "kit": (
        ("layoutscope kit -o kit.sh", "On any computer; then on the Mac: sudo sh kit.sh /Volumes/NAME."),
        ("layoutscope kit | less", "To read what it will do."),
    ),
    "export": (
        ("layoutscope export disk.img --table entries -o entries.parquet", "Files and folders as Parquet."),
        ("layoutscope export disk.img -o files.body", "Files with their times, for mactime."),
    ),
    "extract": (
        ("layoutscope extract disk.img -o metadata.img.zst", "What others need to look into a slow disk."),
        ("layoutscope extract disk.img.zst -o metadata.img", "A sparse file that other programs read."),
    ),
    "checkpoints": (
        ("layoutscope checkpoints disk.img", "Which older states there are."),
        ("layoutscope checkpoints disk.img --json", "The same for programs."),
    ),
    "verify": (
        ("layoutscope verify disk.img", "Whether both decoders read the same."),
        ("layoutscope verify disk.img --json", "The same for programs."),
    ),
}
"""By the name of the command."""
