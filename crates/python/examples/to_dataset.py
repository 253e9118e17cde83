"""Writes exchanges and stalls of captures into Parquet files, in bounded memory.

Usage: python to_dataset.py CAPTURE…
"""

import sys

import pyarrow
import pyarrow.parquet
import tcpwhy


def main(captures: list[str]) -> None:
    """Reads the captures once, as one, and writes `TABLE.parquet` for each table."""
    writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
    for batch in tcpwhy.stream(captures, tables=["exchanges", "stalls"]):
        rows = pyarrow.record_batch(batch)
        if batch.table not in writers:
            name = f"{batch.table}.parquet"
            writers[batch.table] = pyarrow.parquet.ParquetWriter(name, rows.schema)
        writers[batch.table].write_batch(rows)
        print(f"{batch.table}: {len(batch)} rows")
    for writer in writers.values():
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
