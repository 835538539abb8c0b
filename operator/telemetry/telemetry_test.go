package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"nstance.dev/operator/telemetry"
)

func TestOffUnlessTheVariablesAreSet(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		on   bool
		fail bool
	}{
		{},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}},
		{env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, on: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, on: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, fail: true},
		{env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, fail: true},
	} {
		provider, err := telemetry.Start(t.Context(), func(name string) string { return test.env[name] }, telemetry.Service{})
		if (err != nil) != test.fail || test.fail && !errors.Is(err, telemetry.ErrProtocol) {
			t.Errorf("%v: %v", test.env, err)
		}
		if err != nil || provider == nil {
			if err == nil && test.on {
				t.Errorf("%v: off", test.env)
			}
			continue
		}
		_, span := provider.Tracer("test").Start(t.Context(), "span")
		if span.IsRecording() != test.on {
			t.Errorf("%v: recording %v, want %v", test.env, span.IsRecording(), test.on)
		}
		if err := provider.Shutdown(t.Context()); err != nil { // the span never ended: nothing is sent
			t.Errorf("%v: %v", test.env, err)
		}
	}
}

// What was ended is sent when tracing stops.
func TestSpansArrive(t *testing.T) {
	arrived := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL}
	provider, err := telemetry.Start(t.Context(), func(name string) string { return env[name] }, telemetry.Service{Name: "nstance-operator"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "span")
	span.End()
	if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if path := <-arrived; path != "/v1/traces" {
		t.Errorf("sent to %q", path)
	}
}
