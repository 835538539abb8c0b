package shard

import (
	"maps"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// From the change of a group to the registered agent it is one trace, though a
// call, a pass, a queue and a stream carry it.
func TestOneTraceFromChangeToRegisteredAgent(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	opts := worldOptions{tracer: provider.Tracer("test")}
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(1)
	})
	ended := spans.Ended()
	if len(ended) == 0 {
		t.Fatal("nothing was traced")
	}
	parents, names := map[string]string{}, map[string]string{}
	for _, s := range ended {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range ended {
		if s.SpanContext().TraceID() != ended[0].SpanContext().TraceID() {
			t.Errorf("%s is of another trace", s.Name())
		}
		parents[s.Name()] = names[s.Parent().SpanID().String()]
	}
	want := map[string]string{
		"group.upsert": "", "group.write": "group.upsert", "group.decide": "group.upsert",
		"instance.record": "group.decide", "provider.create": "instance.record", "instance.register": "instance.record",
	}
	if !maps.Equal(parents, want) {
		t.Errorf("spans and their parents: %v,\nwant %v (of %v)", parents, want, slices.Sorted(maps.Keys(parents)))
	}
}
