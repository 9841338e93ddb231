"""pipeline/errors.py: Spark's errors in one line. The texts are those of Spark 4.0, with fewer frames."""

from __future__ import annotations

import pytest

from ottla.pipeline.errors import in_one_line

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/here/job.py", line 11, in write
    told("udf", lambda: df.select(udf(lambda x: 1/0)("id")).collect())
                                                ~^~
{raised}
"""
IN_DRIVER = (
    """\
[STREAM_FAILED] Query [id = 62f7, runId = 48eb] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred \
in the user provided function in foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/site-packages/pyspark/errors/exceptions/captured.py", line 288, in deco
    raise converted from None
{raised}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 62f7, runId = 48eb]
Current State: ACTIVE"""
)  # fmt: skip
IN_TASK = """\
[STREAM_FAILED] Query [id = 158a, runId = b24b] terminated with exception: Job aborted due to stage failure: Task 0 in stage 8.0 \
failed 1 times, most recent failure: Lost task 0.0 in stage 8.0 (TID 15) (localhost executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/here/job.py", line 11, in write
{raised}

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
	at java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 158a, runId = b24b]"""

CAUGHT = "pyspark.errors.exceptions.captured."


@pytest.mark.parametrize("text", [WORKER, IN_DRIVER, IN_TASK])
@pytest.mark.parametrize(
    ("raised", "line"),
    [
        ("ValueError: boom", "ValueError: boom"),
        ("ValueError: one\ntwo: more\n  three", "ValueError: one"),
        ("AssertionError", "AssertionError"),
        ("job.write.<locals>.Odd: even", "Odd: even"),
        (
            'cimpl.KafkaException: KafkaError{code=_TIMED_OUT,val=-185,str="no luck"}',
            'KafkaException: KafkaError{code=_TIMED_OUT,val=-185,str="no luck"}',
        ),
        (
            "ottla.pipeline.data_source.segments.DataLoss: t-0 was removed before it was read",
            "t-0 was removed before it was read",
        ),
        ("ottla.pipeline.sql.topic_sink.NotWritten: topic late: no luck", "topic late: no luck"),
    ],
)
def test_what_a_python_worker_raised_whatever_its_class(text: str, raised: str, line: str) -> None:
    assert in_one_line(RuntimeError(text.format(raised=raised))) == line


@pytest.mark.parametrize(
    ("raised", "line"),
    [
        (f"{CAUGHT}PythonException: {WORKER.format(raised='ValueError: boom')}", "ValueError: boom"),
        (f"{CAUGHT}AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] No table `x`. SQLSTATE: 42P01; line 1", "No table `x`."),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.f.\n: java.lang.Odd$Error: even so\n\tat a.B(C)",
            "even so",
        ),
        (
            f"{CAUGHT}SparkException: Job\n\tat a.B(C)\nCaused by: java.lang.NoClassDefFoundError: scala/Odd\n\tat d.E(F)",
            "NoClassDefFoundError: scala/Odd",
        ),
    ],
)
def test_what_python_only_passes_on_of_the_jvm(raised: str, line: str) -> None:
    assert in_one_line(RuntimeError(IN_DRIVER.format(raised=raised))) == line


def test_an_error_of_the_jvm() -> None:
    text = (
        "An error occurred while calling o1.save.\n: org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "\tat a.B.c(B.scala:1)\nCaused by: java.lang.IllegalStateException: the records are gone\n\tat d.E.f(E.java:2)"
    )
    assert in_one_line(RuntimeError(text)) == "the records are gone"
    assert (
        in_one_line(RuntimeError("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x`. SQLSTATE: 42703; line 1")) == "A column `x`."
    )
    assert in_one_line(RuntimeError()) == "RuntimeError"
    assert in_one_line(RuntimeError("x" * 400)) == "x" * 400
    assert in_one_line(RuntimeError("x" * 401)) == "x" * 400 + "..."
