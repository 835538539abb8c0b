package machinepool_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/telemetry"
)

// A change of a pool is one trace from the pass of the pool to the calls that its shards get,
// though an object of the API server stands between them, and a call that fails is repeated.
func TestOneTraceFromTheMachinePoolToTheCallAtTheShard(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		traces := telemetry.NewTraces(w.Traces.Tracer("test"))
		w.pool.Traces, w.shardGroups.Traces = traces, traces
		w.Spans.Reset()
		w.scale(5)
		w.settle()

		names, parents := map[string]string{}, map[string]string{}
		trace := ""
		for _, s := range w.Spans.Ended() {
			names[s.SpanContext().SpanID().String()] = s.Name()
			if s.Name() == "machinepool.reconcile" {
				trace = s.SpanContext().TraceID().String()
			}
		}
		for _, s := range w.Spans.Ended() {
			if s.SpanContext().TraceID().String() == trace { // the world edits the objects too, afterwards
				parents[s.Name()] = names[s.Parent().SpanID().String()]
			}
		}
		want := map[string]string{
			"machinepool.reconcile": "", "shardgroup.reconcile": "machinepool.reconcile", "nstance.v1.OperatorService/UpsertGroup": "shardgroup.reconcile",
		}
		if diff := cmp.Diff(want, parents); diff != "" {
			t.Errorf("spans and their parents: %s", diff)
		}
		told := 0
		for _, shard := range []string{"a", "b"} {
			for _, c := range w.Shard(shard).Calls() {
				if c.Method == "UpsertGroup" && trace != "" && strings.Contains(c.TraceParent, trace) {
					told++
				}
			}
		}
		if told != 2 {
			t.Errorf("%d calls told a shard of trace %q, want 2", told, trace)
		}
	})
}
