"""OpenTelemetry: spans in batches over OTLP/HTTP, and a counter. Default settings."""

from collections.abc import Callable

IMPORT = (
    "from opentelemetry.sdk.trace.export import BatchSpanProcessor\n"
    "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter"
)


def needle(token: str, name: str) -> bytes:
    return f"{token}-{name}".encode()


class Adapter:
    def start(self, url: str, state: str, job: str) -> None:
        if job == "counter.add":
            self.start_counter(url)
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url + "/v1/traces")))
        self.tracer = provider.get_tracer("bench")

    def start_counter(self, url: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        reader = PeriodicExportingMetricReader(OTLPMetricExporter(url + "/v1/metrics"))
        meter = MeterProvider(metric_readers=[reader]).get_meter("bench")
        self.counter = meter.create_counter("clicks")

    def mark(self, token: str, name: str) -> None:
        self.tracer.start_span(f"{token}-{name}").end()

    def span(self) -> None:
        self.tracer.start_span("clicked").end()

    def add(self) -> None:
        self.counter.add(1)

    @property
    def calls(self) -> dict[str, Callable[[], None]]:
        return {"span start+end": self.span, "counter.add": self.add}

    first = span
