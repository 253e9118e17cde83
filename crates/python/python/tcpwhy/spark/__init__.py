"""Captures on Apache Spark (4.1 or later), with the answers of one process.

>>> from tcpwhy import spark as on_spark
>>> found = on_spark.diagnose(spark, "s3://captures/2026-11-28/")
>>> found.table("exchanges").groupBy("server").count()
>>> found.write("s3://results/tcpwhy")

Driver and executors need this package, pyspark, pyarrow, and fsspec for URLs. docs/scale.md says what is
exact, what it costs, and how to size a cluster.
"""

from ._diagnose import Diagnosis, Skew, diagnose
from ._inputs import point_of_directory
from ._source import CaptureDataSource, register

__all__ = ["CaptureDataSource", "Diagnosis", "Skew", "diagnose", "point_of_directory", "register"]
