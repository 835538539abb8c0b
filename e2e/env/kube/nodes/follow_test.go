package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// cloud is what list asks.
type cloud struct {
	mu    sync.Mutex
	names []string
	err   error
}

func (c *cloud) set(err error, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names, c.err = names, err
}

func (c *cloud) list(context.Context) ([]Machine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var machines []Machine
	for _, name := range c.names {
		machines = append(machines, Machine{Name: name})
	}
	return machines, c.err
}

// alive returns the Nodes whose Lease was renewed within the last heartbeat.
func alive(t *testing.T, client *fake.Clientset) map[string]bool {
	t.Helper()
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, lease := range leases.Items {
		all[lease.Name] = time.Since(lease.Spec.RenewTime.Time) <= 10*time.Second
	}
	return all
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, machines := fake.NewClientset(), &cloud{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Follow(ctx, client, slog.New(slog.DiscardHandler), time.Second, machines.list) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for _, step := range []struct {
			what  string
			err   error
			names []string
			want  map[string]bool
		}{
			{"none at first", nil, nil, map[string]bool{}},
			{"two have come", nil, []string{"a", "b"}, map[string]bool{"a": true, "b": true}},
			{"nobody knows", errors.New("the server is away"), nil, map[string]bool{"a": true, "b": true}},
			{"one is gone, another one there", nil, []string{"b", "c"}, map[string]bool{"a": false, "b": true, "c": true}},
			{"it comes back", nil, []string{"a", "b", "c"}, map[string]bool{"a": true, "b": true, "c": true}},
		} {
			machines.set(step.err, step.names...)
			time.Sleep(30 * time.Second)
			if diff := cmp.Diff(step.want, alive(t, client)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.what, diff)
			}
		}
	})
}

// A machine that has left and joined again is a new Node, although it was there at every look.
func TestFollow_anotherLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var life atomic.Int32
		list := func(context.Context) ([]Machine, error) {
			return []Machine{{Name: "a", Life: fmt.Sprint(life.Load())}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Follow(ctx, client, slog.New(slog.DiscardHandler), time.Second, list) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(5 * time.Second)
		if err := client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		life.Store(1)
		time.Sleep(5 * time.Second)
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}
