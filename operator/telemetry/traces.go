package telemetry

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
)

// Traces begins spans about objects, and knows which span wrote an object last. The nil one
// traces nothing. It is safe for concurrent use.
type Traces struct {
	tracer trace.Tracer

	mu     sync.Mutex
	causes map[types.NamespacedName]trace.SpanContext // of objects that were written and not acted on yet
}

// NewTraces returns traces by a tracer.
func NewTraces(tracer trace.Tracer) *Traces {
	return &Traces{tracer: tracer, causes: map[types.NamespacedName]trace.SpanContext{}}
}

// Begin begins a span about an object, below the one that wrote it if one did. The caller ends
// the span with [End].
func (t *Traces) Begin(ctx context.Context, name string, object types.NamespacedName, about ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	t.mu.Lock()
	cause, caused := t.causes[object]
	t.mu.Unlock()
	if caused {
		ctx = trace.ContextWithSpanContext(ctx, cause)
	}
	about = append(about, attribute.String("k8s.namespace.name", object.Namespace), attribute.String("nstance.object", object.Name))
	return t.tracer.Start(ctx, name, trace.WithAttributes(about...))
}

// Wrote notes that the span of ctx has written an object: what becomes of that belongs to it.
func (t *Traces) Wrote(ctx context.Context, object types.NamespacedName) {
	span := trace.SpanContextFromContext(ctx)
	if t == nil || !span.IsSampled() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes[object] = span
}

// Settled notes that nothing is left to be done about an object.
func (t *Traces) Settled(object types.NamespacedName) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.causes, object)
}

// End ends a span with the outcome of what it is about. What an error says is for the log.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "failed")
	}
	span.End()
}
