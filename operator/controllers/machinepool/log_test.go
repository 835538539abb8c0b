package machinepool_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

var update = flag.Bool("update", false, "write testdata/scale.log anew")

// instanceID is what an id looks like: a kind and 26 characters.
var instanceID = regexp.MustCompile(`\b[a-z]{3}[0-9a-z]{26}\b`)

// logging returns a context whose logger names an object, as the controllers of a manager do.
func (w *world) logging(kind, name string) context.Context {
	log := w.Log.Logger().With("object", kind+"/"+name)
	return ctrl.LoggerInto(context.Background(), logr.FromSlogHandler(log.Handler()))
}

// counting counts the generations of shard groups, which the server in memory does not.
func counting(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if shardGroup, ok := o.(*infrav1.NstanceShardGroup); ok {
				shardGroup.Generation++
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// scaled is scale, with the generation that an API server gives.
func (w *world) scaled(replicas int32, generation int64) {
	w.t.Helper()
	machinePool := &clusterv1.MachinePool{}
	w.Change("web", machinePool, func() { machinePool.Spec.Replicas, machinePool.Generation = &replicas, generation })
}

// logged makes one pass of each controller and returns what they and the connections log,
// with the instances numbered in the order in which they are named.
func (w *world) logged(ids *[]string) string {
	w.t.Helper()
	w.Log.Take()
	if _, err := w.pool.Reconcile(w.logging("NstanceMachinePool", "web"), key("web")); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"web--a", "web--b"} {
		if _, err := w.shardGroups.Reconcile(w.logging("NstanceShardGroup", name), key(name)); err != nil {
			w.t.Fatal(err)
		}
		w.After(time.Millisecond)
	}
	return instanceID.ReplaceAllStringFunc(w.Log.Take(), func(id string) string {
		if !slices.Contains(*ids, id) {
			*ids = append(*ids, id)
		}
		return fmt.Sprintf("instance-%d", slices.Index(*ids, id)+1)
	})
}

// TestTheLogTellsOfAScaling: from the log alone one can tell what was decided, where it
// was sent, and why.
func TestTheLogTellsOfAScaling(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.settle()
		w.pool.Client = counting(w.Client)
		var ids []string
		text := "# kubectl scale machinepool web --replicas 5\n"
		w.scaled(5, 2)
		text += w.logged(&ids)
		for _, shard := range []string{"a", "b"} {
			w.Shard(shard).Settle()
		}
		w.After(time.Millisecond)
		text += "# the instances are there\n" + w.logged(&ids)
		w.settle()
		text += "# kubectl scale machinepool web --replicas 4\n"
		w.scaled(4, 3)
		text += w.logged(&ids)

		golden := filepath.Join("testdata", "scale.log")
		if *update {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil { //nolint:gosec // it is read by everybody
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("run go test ./operator/controllers/machinepool -update if this is better:\n%s", diff)
		}
	})
}
