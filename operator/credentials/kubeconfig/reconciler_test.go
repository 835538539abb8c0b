package kubeconfig_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"nstance.dev/operator/credentials/kubeconfig"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/testworld"
)

// world is an API server with a Cluster, that gives out tokens.
type world struct {
	t        *testing.T
	client   client.Client
	issued   int
	refuse   error // to give out tokens
	reported []error
	expiry   time.Time
	*kubeconfig.Reconciler
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.client = testworld.NewClientBuilder(t).
			WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid"}}).
			WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: w.issue}).
			Build()
		w.restart()
		test(t, w)
	})
}

// restart begins anew with what is stored.
func (w *world) restart() {
	w.Reconciler = &kubeconfig.Reconciler{
		Client: w.client, Store: secrets.NewStore("ns", w.client, w.client), Namespace: "ns", Cluster: "c", ServiceAccount: "sa",
		Endpoint: func() kubeconfig.Endpoint { return kubeconfig.Endpoint{URL: "https://api:443", CA: []byte("ca")} },
		Now:      time.Now,
		Failed:   func(_ context.Context, err error) { w.reported = append(w.reported, err) },
		Renewed:  func(expiry time.Time) { w.expiry = expiry },
	}
}

func (w *world) issue(_ context.Context, _ client.Client, what string, o client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
	request, ok := sub.(*authenticationv1.TokenRequest)
	if !ok || what != "token" || o.GetName() != "sa" || o.GetNamespace() != "ns" {
		w.t.Errorf("asked for %s of %s", what, o.GetName())
		return errors.New("no such thing")
	}
	if w.refuse != nil {
		return w.refuse
	}
	w.issued++
	request.Status.Token = "token" + string(rune('0'+w.issued))
	request.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
	return nil
}

// pass reconciles once and returns when it comes back.
func (w *world) pass() time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), reconcile.Request{})
	if err != nil {
		w.t.Error(err)
	}
	return result.RequeueAfter
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	var s corev1.Secret
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: "c-kubeconfig"}, &s); err != nil {
		w.t.Fatal(err)
	}
	return &s
}

func (w *world) token() string {
	w.t.Helper()
	c, err := clientcmd.RESTConfigFromKubeConfig(w.secret().Data["value"])
	if err != nil {
		w.t.Fatal(err)
	}
	return c.BearerToken
}

func TestO8_TheTokenIsRenewedBeforeItEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if again := w.pass(); again != 30*time.Minute {
			t.Errorf("comes back after %v, want 30m", again)
		}
		s := w.secret()
		want := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Labels:          map[string]string{"cluster.x-k8s.io/cluster-name": "c"},
				Annotations:     map[string]string{"nstance.dev/token-expiry": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "c", UID: "uid"}},
			},
			Type: "cluster.x-k8s.io/secret",
		}
		got := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: s.Labels, Annotations: s.Annotations, OwnerReferences: s.OwnerReferences}, Type: s.Type,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for round := range 3 {
			time.Sleep(29 * time.Minute)
			w.pass() // too early
			time.Sleep(time.Minute)
			w.pass()
			if want := "token" + string(rune('2'+round)); w.token() != want {
				t.Errorf("the token is %s, want %s", w.token(), want)
			}
			if left := time.Until(w.expiry); left != time.Hour {
				t.Errorf("it ends in %v", left)
			}
		}
	})
}

// Its service account may have been made anew since, as when a chart is installed again.
func TestO18_ATokenOfAnEarlierProcessIsReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pass()
		w.restart()
		w.pass()
		w.pass()
		if w.token() != "token2" || w.issued != 2 {
			t.Errorf("the token is %s, %d were asked for", w.token(), w.issued)
		}
	})
}

func TestO8_ASpoiledKubeconfigIsRepaired(t *testing.T) {
	tests := map[string]func(*corev1.Secret){
		"without its label":   func(s *corev1.Secret) { s.Labels = nil },
		"empty":               func(s *corev1.Secret) { s.Data = nil },
		"without its end":     func(s *corev1.Secret) { s.Annotations = nil },
		"with another's note": func(s *corev1.Secret) { s.Annotations["nstance.dev/token-expiry"] = "tomorrow" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.pass()
				good := w.secret()
				s := good.DeepCopy()
				spoil(s)
				s.Labels = withLabel(s.Labels, "mine", "stays")
				if err := w.client.Update(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				w.pass()
				after := w.secret()
				if after.Labels["mine"] != "stays" || kubeconfig.Problem("c", after) != "" || !cmp.Equal(after.Annotations, good.Annotations) {
					t.Errorf("labels %v, annotations %v, %s", after.Labels, after.Annotations, kubeconfig.Problem("c", after))
				}
			})
		})
	}
}

func withLabel(labels map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range labels {
		out[k] = v
	}
	return out
}

func TestO8_FailuresAreRetriedAndSaid(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.refuse = errors.New("no")
		var waits []time.Duration
		for range 6 {
			waits = append(waits, w.pass())
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 120 * s, 120 * s}, waits); diff != "" {
			t.Error(diff)
		}
		if len(w.reported) != 1 {
			t.Errorf("reported %v, want one report", w.reported)
		}
		w.refuse = nil
		if again := w.pass(); again != 30*time.Minute {
			t.Errorf("comes back after %v", again)
		}
		if bytes.Contains([]byte(w.reported[0].Error()), []byte("token1")) {
			t.Error("S14: the token is in the report")
		}
	})
}

func TestWithoutAClusterNothingIsMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if err := w.client.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}); err != nil {
			t.Fatal(err)
		}
		if again := w.pass(); again != 0 || w.issued != 0 {
			t.Errorf("comes back after %v, %d tokens", again, w.issued)
		}
	})
}
