// Package telemetry sends the operator's traces to where the standard variables of
// OpenTelemetry say, and is off without them. Those are the variables of the servers too.
//
// It makes the provider of tracers, and remembers which span wrote an object, until the
// controller of that object acts on it: a change of a MachinePool and the calls that follow
// from it are one trace, though an object of the API server stands between them. What is traced
// is the business of the packages that do it.
//
// The variables: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
// turns it on, OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true off;
// OTEL_EXPORTER_OTLP_PROTOCOL is grpc or http/protobuf, the default; the exporter
// and the SDK read the others (headers, certificates, sampler, batches, service
// name and resource attributes) themselves.
//
// How the variables are read stands in the servers' package of this name as well. The operator
// may import no server, what both may import (protos) is imported by agents too, which send no
// traces and should not depend on an exporter, and sixty lines are no reason for a module. A test
// of the repository keeps the two the same.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// ErrProtocol is matched by the error about a protocol or exporter that is not
// offered.
var ErrProtocol = errors.New("not offered")

// Service says whose spans they are. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES beat it.
type Service struct{ Name, Version, Instance string }

// Start returns a provider of tracers, whose Shutdown sends the last spans; nil: the variables
// ask for none.
func Start(ctx context.Context, getenv func(string) string, s Service) (*trace.TracerProvider, error) {
	on, err := wanted(getenv)
	if err != nil || !on {
		return nil, err
	}
	exporter, err := newExporter(ctx, getenv)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", s.Name), attribute.String("service.version", s.Version),
			attribute.String("service.instance.id", s.Instance),
		), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about)), nil
}

// wanted reports whether the variables ask for traces.
func wanted(getenv func(string) string) (bool, error) {
	if getenv("OTEL_SDK_DISABLED") == "true" {
		return false, nil
	}
	switch kind := getenv("OTEL_TRACES_EXPORTER"); kind {
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	case "":
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("traces: OTEL_TRACES_EXPORTER=%q is %w; set otlp or none", kind, ErrProtocol)
	}
}

// newExporter connects to nothing yet.
func newExporter(ctx context.Context, getenv func(string) string) (trace.SpanExporter, error) {
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	switch protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	default:
		return nil, fmt.Errorf("protocol %q is %w; set grpc or http/protobuf", protocol, ErrProtocol)
	}
}
