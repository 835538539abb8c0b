package shard

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"nstance.dev/server/fleet"
)

// traces follow a change of a group to the machines that it causes, as one
// trace: the call, its write, the decision, the record, the create and the
// registration of the agent, which may be answered by another leader. Between a
// call and its decision the trace is kept here; between a record and its
// registration it stands in the record. It is safe for concurrent use.
type traces struct {
	tracer trace.Tracer

	mu     sync.Mutex
	causes map[fleet.GroupID]trace.SpanContext // of groups with a change that is not carried out yet
}

func newTraces(tracer trace.Tracer) *traces {
	return &traces{tracer: tracer, causes: map[fleet.GroupID]trace.SpanContext{}}
}

// start begins a span about a group. The caller ends it with [endSpan].
func (t *traces) start(ctx context.Context, name string, group fleet.GroupID, about ...attribute.KeyValue) (context.Context, trace.Span) {
	about = append(about, attribute.String("nstance.tenant", group.Tenant), attribute.String("nstance.group", group.Name))
	return t.tracer.Start(ctx, name, trace.WithAttributes(about...))
}

// endSpan ends a span with the outcome of what it is about. What an error says is
// for the log.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}

// caused notes that what becomes of the group from now on belongs to a trace.
func (t *traces) caused(group fleet.GroupID, by trace.SpanContext) {
	if !by.IsSampled() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes[group] = by
}

// settled notes that nothing is left to be done in the group.
func (t *traces) settled(group fleet.GroupID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.causes, group)
}

// decide begins the span of a pass that sends something, below the change that
// caused it if one did.
func (t *traces) decide(ctx context.Context, w weighing) (context.Context, trace.Span) {
	if len(w.verdict.Shown) == 0 {
		t.settled(w.group)
	}
	if len(w.verdict.Send) == 0 {
		return ctx, trace.SpanFromContext(ctx)
	}
	t.mu.Lock()
	cause := t.causes[w.group]
	t.mu.Unlock()
	return t.start(below(ctx, cause), "group.decide", w.group, attribute.Int("nstance.actions", len(w.verdict.Send)))
}

// below is a context whose spans belong under another one, if there is one.
func below(ctx context.Context, parent trace.SpanContext) context.Context {
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, parent)
}

// traceParent is the field of the W3C's trace context under which a span is kept.
const traceParent = "traceparent"

// traceOf is how a span stands in a record, empty for one that nobody records.
func traceOf(span trace.Span) string {
	if !span.SpanContext().IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier[traceParent]
}

// belowRecorded is a context whose spans belong under the one that a record names.
func belowRecorded(ctx context.Context, recorded string) context.Context {
	if recorded == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: recorded})
}
