//go:build kube

package stories_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kube.OwnNetwork(m)) }

// world is a cluster in which stories take place, one after another.
type world struct {
	*demandcluster.Cluster
	servers *shards.Cluster
	usage   *demandcluster.Usage
}

// newWorld starts a cluster of three zones, each a shard with a group of mode demand.
func newWorld(t *testing.T) *world {
	t.Helper()
	servers := shards.New(t, map[string]shards.Groups{"a": {}, "b": {}, "c": {}}, shards.Unbound, shards.Demand(shards.Tenant, nil, nil))
	return &world{demandcluster.Start(t, demandcluster.Options{Shards: servers}), servers, &demandcluster.Usage{}}
}

// tell runs stories, and checks after each that nothing is left over, and after all what rights
// the operator needed. all says that these are all stories, so that each right must have been of
// use where none was left out by a flag.
func (w *world) tell(t *testing.T, stories []story, all map[string]string) {
	t.Helper()
	told := 0
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			told++
			w.one(t, s)
		})
	}
	if told < len(stories) {
		all = nil
	}
	w.rights(t, all)
}

// rights checks that the operator was refused nothing, and used all that it may do but for what
// is excused, with the reason.
func (w *world) rights(t *testing.T, excused map[string]string) {
	t.Helper()
	if err := w.usage.Add(w.Cluster); err != nil {
		t.Fatal(err)
	}
	for _, refused := range w.usage.Refused {
		t.Errorf("the operator may not %s", refused)
	}
	if excused == nil {
		return
	}
	for _, right := range w.usage.Unused() {
		if excused[right] == "" {
			t.Errorf("the operator may %s, and never did", right)
		}
	}
}

// story is what happens in a namespace of its own.
type story struct {
	name string
	tell func(*teller)
}

// teller tells one story.
type teller struct {
	*world
	t         *testing.T
	namespace string
}

func (w *world) one(t *testing.T, s story) {
	t.Helper()
	teller := w.begin(t, s.name)
	t.Cleanup(teller.end)
	s.tell(teller)
}

// begin makes the namespace of a story.
func (w *world) begin(t *testing.T, name string) *teller {
	t.Helper()
	teller := &teller{w, t, "story-" + name}
	namespaces := w.Client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: teller.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the namespace has its account", func(ctx context.Context) error {
		_, err := w.Client.CoreV1().ServiceAccounts(teller.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return teller
}

// end deletes what the story made, and waits until nothing is left over.
func (s *teller) end() {
	s.clear()
	kube.Await(s.t, "nothing is left over", s.Left)
}

// expect waits until as many Pods with a label app run as are wanted, and no more are there.
func (s *teller) expect(app string, running int) {
	s.t.Helper()
	kube.Await(s.t, fmt.Sprintf("%d Pods of %s run", running, app), func(ctx context.Context) error { return s.runs(ctx, app, running) })
}
