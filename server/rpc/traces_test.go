package rpc_test

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What an operator's call causes belongs to the trace that the call names; without one, or with
// one that cannot be read, it is a trace of its own.
func TestAnOperatorsTraceGoesOn(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	w := newWorld(t, worldOptions{tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")})
	op := w.operatorOf("default")
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	for _, tt := range []struct {
		name, parent string
		joins        bool
	}{
		{"a trace", "00-" + theirs + "-b7ad6b7169203331-01", true},
		{"none", "", false},
		{"what is none", "00-nonsense", false},
	} {
		spans.Reset()
		ctx, template := t.Context(), "plain"
		if tt.parent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", tt.parent)
		}
		if _, err := op.UpsertGroup(ctx, &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template}}); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, s := range spans.Ended() {
			if s.Name() == "group.upsert" {
				found = true
				if joins := s.SpanContext().TraceID().String() == theirs; joins != tt.joins {
					t.Errorf("%s: the span is of trace %s", tt.name, s.SpanContext().TraceID())
				}
			}
		}
		if !found {
			t.Errorf("%s: no span of the call among %d", tt.name, len(spans.Ended()))
		}
	}
}
