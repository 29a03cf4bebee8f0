"""An ELF program without its symbols: what a linker's -s gives, from the program with names.

One link then serves both the file that is shipped and the report of where its bytes
went; zig, which builds the C library for each kind of link, builds it once.
"""

from __future__ import annotations

import struct

_ALLOCATED, _INFO_LINK = 2, 0x40
_NOBITS, _PROCESSOR = 8, 0x70000000  # from the latter on: attributes that segments may name


def strip_elf(image: bytes) -> bytes:
    """The same program: its segments byte by byte, and the table of the sections in them.

    Linkers put what is never loaded behind all that is, so nothing moves.
    """
    wide = image[4] == 2
    header = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    section = "<IIQQQQIIQQ" if wide else "<10I"
    fields = list(struct.unpack_from(header, image, 16))
    segments_at, table, (segment_step, segment_count, step, count, names) = fields[4], fields[5], fields[8:]
    rows = [list(struct.unpack_from(section, image, table + i * step)) for i in range(count)]
    # Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
    kept = [i for i, row in enumerate(rows) if i == 0 or row[2] & _ALLOCATED or row[1] >= _PROCESSOR]
    place = {old: new for new, old in enumerate(kept)}

    end = segments_at + segment_step * segment_count
    for i in range(segment_count):
        at = segments_at + i * segment_step + (8 if wide else 4)
        offset, _, _, size = struct.unpack_from("<4Q" if wide else "<4I", image, at)
        end = max(end, offset + size)
    end = max([end, *(rows[i][4] + rows[i][5] for i in kept if rows[i][1] != _NOBITS)])

    strings = bytearray(b"\0")
    written = []
    for i in kept:
        row = rows[i]
        old = rows[names][4] + row[0]
        row[0] = len(strings) if i else 0
        if i:
            strings += image[old : image.index(b"\0", old) + 1]
        row[6] = place.get(row[6], 0)
        if row[2] & _INFO_LINK:
            row[7] = place.get(row[7], 0)
        written.append(row)
    own = len(strings)
    strings += b".shstrtab\0"
    written.append([own, 3, 0, 0, end, len(strings), 0, 0, 1, 0])
    body = image[:end] + bytes(strings)
    body += bytes(-len(body) % 8)
    fields[5], fields[11], fields[12] = len(body), len(written), len(written) - 1
    body += b"".join(struct.pack(section, *row) for row in written)
    return image[:16] + struct.pack(header, *fields) + body[16 + struct.calcsize(header) :]
