// Package traces follows a change of a group to the machines that it causes, as one trace:
// the call, its write, the decision, the record, the create and the registration of the
// agent, which may be answered by another leader. Between a call and its decision the trace is
// kept in [Traces]; between a record and its registration it stands in the record.
//
// Its one lock is held for a look into a map.
package traces

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"nstance.dev/protos/identity"
	"nstance.dev/server/fleet"
)

// Traces are those of the groups of a shard. They are safe for concurrent use.
type Traces struct {
	tracer trace.Tracer

	mu     sync.Mutex
	causes map[fleet.GroupID]trace.SpanContext // of groups with a change that is not carried out yet
}

// New returns the traces of groups that nothing has changed yet.
func New(tracer trace.Tracer) *Traces {
	return &Traces{tracer: tracer, causes: map[fleet.GroupID]trace.SpanContext{}}
}

// Start begins a span about a group. The caller ends it with [End].
func (t *Traces) Start(ctx context.Context, name string, group fleet.GroupID, about ...attribute.KeyValue) (context.Context, trace.Span) {
	about = append(about, attribute.String("nstance.tenant", group.Tenant), attribute.String("nstance.group", group.Name))
	return t.tracer.Start(ctx, name, trace.WithAttributes(about...))
}

// Instance names the instance that a span is about.
func Instance(id identity.ID) attribute.KeyValue {
	return attribute.String("nstance.instance", id.String())
}

// End ends a span with the outcome of what it is about. What an error says is for the log.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}

// Caused notes that what becomes of the group from now on belongs to a trace.
func (t *Traces) Caused(group fleet.GroupID, by trace.SpanContext) {
	if !by.IsSampled() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes[group] = by
}

// Settled notes that nothing is left to be done in the group.
func (t *Traces) Settled(group fleet.GroupID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.causes, group)
}

// Decided begins the span of a pass over a group, below the change that caused it if one
// did. Without actions there is none.
func (t *Traces) Decided(ctx context.Context, group fleet.GroupID, actions int) (context.Context, trace.Span) {
	if actions == 0 {
		return ctx, trace.SpanFromContext(ctx)
	}
	t.mu.Lock()
	cause := t.causes[group]
	t.mu.Unlock()
	return t.Start(below(ctx, cause), "group.decide", group, attribute.Int("nstance.actions", actions))
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

// Of is how a span stands in a record, empty for one that nobody records.
func Of(span trace.Span) string {
	if !span.SpanContext().IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier[traceParent]
}

// Below is a context whose spans belong under the one that a record names, if it names one.
func Below(ctx context.Context, recorded string) context.Context {
	if recorded == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: recorded})
}
