// Package telemetry sends traces to where the standard variables of OpenTelemetry
// say, and is off without them.
//
// It only makes the provider of tracers; what is traced is the business of the
// packages that do it. Metrics are Prometheus's and have nothing to do with this.
//
// The variables: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
// turns it on, OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true off;
// OTEL_EXPORTER_OTLP_PROTOCOL is grpc or http/protobuf, the default; the exporter
// and the SDK read the others (headers, certificates, sampler, batches, service
// name and resource attributes) themselves.
//
// How the variables are read stands in the operator's package of this name as well, which says
// why. A test of the repository keeps the two the same.
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
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// ErrProtocol is matched by the error about a protocol or exporter that is not
// offered.
var ErrProtocol = errors.New("not offered")

// Service says whose spans they are. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES beat it.
type Service struct {
	Name, Version, Shard, Server string
}

// Start returns a provider of tracers and what sends the last spans and ends it,
// within the context that it gets. Where the variables ask for nothing, neither
// does anything.
func Start(ctx context.Context, getenv func(string) string, s Service) (api.TracerProvider, func(context.Context) error, error) {
	on, err := wanted(getenv)
	if err != nil || !on {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, err
	}
	exporter, err := newExporter(ctx, getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", s.Name), attribute.String("service.version", s.Version),
			attribute.String("service.instance.id", s.Server), attribute.String("nstance.shard", s.Shard),
		), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	return provider, provider.Shutdown, nil
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
