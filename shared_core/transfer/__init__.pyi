from .record_import import (
    RecordCounts as RecordCounts,
    RecordOptions as RecordOptions,
    RecordReport as RecordReport,
)
from .sources.formats import open_source as open_source
