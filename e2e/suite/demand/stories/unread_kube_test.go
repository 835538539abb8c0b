//go:build kube && demand

package stories_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/perf/usage"
)

var unread = flag.Duration("unread", 10*time.Minute, "how long a server reads nothing of a session")

// profiles is of how many rows a roll-up is that waits while the server does not read.
const profiles = 300

// A server reads nothing of a session for ten minutes, while what the cluster needs changes each
// second: the session stands, and the operator's memory stays as it is. What was needed last comes
// when the server reads again.
func TestASessionThatIsNotRead(t *testing.T) {
	servers := shards.New(t, map[string]shards.Groups{"a": {}}, shards.Unbound, shards.Demand(shards.Tenant, nil, nil))
	w := &world{demandcluster.Start(t, demandcluster.Options{Shards: servers, Values: map[string]any{
		// The probes of the connection are not answered either, and it is not to end for that.
		"demand": map[string]any{"keepaliveInterval": "1h", "keepaliveTimeout": "10m"},
	}}), servers, &demandcluster.Usage{}}
	t.Run("session", func(t *testing.T) { w.one(t, story{"unread", unreadSession}) })
}

func unreadSession(s *teller) {
	for i := range profiles {
		s.ask(i)
	}
	s.deploy(1, pod("web", "900m"))
	s.expect("web", 1) // the session stands, and takes what it is told
	s.servers.CutOff("a")
	var resident []float64
	for began := time.Now(); time.Since(began) < *unread; time.Sleep(time.Second) {
		s.more(fmt.Sprint("asks-", len(resident)%profiles), len(resident))
		u, err := usage.Of(s.Operator().PID())
		if err != nil {
			s.t.Fatal(err)
		}
		resident = append(resident, usage.MiB(u.Resident))
	}
	ended := strings.Count(s.Operator().Log(1_000_000), `msg="demand session ended"`)
	s.servers.Mend("a")
	quarter := len(resident) / 4
	early, late := slices.Max(resident[quarter:2*quarter]), slices.Max(resident[3*quarter:])
	s.t.Logf("measured: the operator has at most %.1f MiB in the second quarter of %v, and %.1f MiB in the last", early, *unread, late)
	if late > early+max(6, early/10) {
		s.t.Errorf("the operator's memory grew from %.1f to %.1f MiB", early, late)
	}
	if ended > 0 {
		s.t.Errorf("%d sessions ended, so that nothing waited", ended)
	}
	s.scale("web", 4)
	s.expect("web", 4)
	s.takeBack()
}

// ask makes a request for what no shard has, with a profile of its own.
func (s *teller) ask(i int) {
	s.t.Helper()
	_, err := s.Custom.Resource(demandcluster.CapacityRequests).Namespace(s.namespace).Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demand.nstance.dev/v1alpha1", "kind": "CapacityRequest", "metadata": map[string]any{"name": fmt.Sprint("asks-", i)},
		"spec": map[string]any{
			"requirements": []any{map[string]any{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{fmt.Sprint("nowhere-", i)}}},
			"resources":    map[string]any{"requests": map[string]any{"cpu": "100m"}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// more has a request ask for more.
func (s *teller) more(name string, by int) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"cpu":"%dm"}}}}`, 200+by)
	_, err := s.Custom.Resource(demandcluster.CapacityRequests).Namespace(s.namespace).Patch(s.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// takeBack deletes all requests that the story made.
func (s *teller) takeBack() {
	s.t.Helper()
	err := s.Custom.Resource(demandcluster.CapacityRequests).Namespace(s.namespace).DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
