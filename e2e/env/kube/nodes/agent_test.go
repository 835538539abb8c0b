package nodes

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// power runs an agent until the test turns it off, in a bubble of fake time.
func power(t *testing.T, client *fake.Clientset) (agent *Agent, off func()) {
	ctx, cancel := context.WithCancel(t.Context())
	agent = New(client, Machine{Name: "n1", ProviderID: "nstance://a/1"}, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	return agent, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// readiness returns the status of the Node's Ready condition.
func readiness(t *testing.T, client *fake.Clientset) corev1.ConditionStatus {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return "missing"
}

func TestAgent_registersAndBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		agent, off := power(t, client)
		defer off()
		time.Sleep(35 * time.Second)

		node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := node.Spec.ProviderID; got != "nstance://a/1" {
			t.Errorf("provider ID %q", got)
		}
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age != 5*time.Second {
			t.Errorf("the lease was renewed %v ago, want 5s", age)
		}
		if got := *lease.Spec.LeaseDurationSeconds; got != 40 {
			t.Errorf("the lease lasts %ds, want 40s", got)
		}

		var said []corev1.ConditionStatus
		said = append(said, readiness(t, client))
		agent.SetReady(false)
		synctest.Wait()
		said = append(said, readiness(t, client))
		agent.SetReady(true)
		synctest.Wait()
		said = append(said, readiness(t, client))
		want := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionTrue}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("readiness (-want +got):\n%s", diff)
		}
	})
}

func TestAgent_triesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var calls atomic.Int32
		client.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return calls.Add(1)%2 == 1, nil, errors.New("the API server is away")
		})
		_, off := power(t, client)
		defer off()
		time.Sleep(5 * time.Second)
		if got := readiness(t, client); got != corev1.ConditionTrue {
			t.Errorf("ready: %s", got)
		}
	})
}

func TestAgent_makesALeaseAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		_, off := power(t, client)
		defer off()
		synctest.Wait()
		leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		if err := leases.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if _, err := leases.Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func TestAgent_aDeletedNodeStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		_, off := power(t, client)
		defer off()
		synctest.Wait()
		if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(nodes.Items) > 0 {
			t.Errorf("%d Nodes, want none", len(nodes.Items))
		}
	})
}

func TestAgent_runsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		_, off := power(t, client)
		defer off()
		synctest.Wait()
		pods := client.CoreV1().Pods("x")
		for _, name := range []string{"mine", "theirs"} {
			p := pod(corev1.PodPending, nil)
			p.Name, p.Namespace, p.Spec.NodeName = name, "x", map[string]string{"mine": "n1", "theirs": "n2"}[name]
			if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		got := map[string]corev1.PodPhase{}
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			got[p.Name] = p.Status.Phase
		}
		want := map[string]corev1.PodPhase{"mine": corev1.PodRunning, "theirs": corev1.PodPending}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}
