package drain_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/drain"
)

// O10: an eviction that the API server wants to be asked for later is answered at once, with how much later; other
// calls are repeated as ever.
func TestO10_AnEvictionIsAskedForOnce(t *testing.T) {
	for name, refusal := range map[string]*apierrors.StatusError{
		"429": apierrors.NewTooManyRequests("the budget is not known yet", 1),
		"504": apierrors.NewTimeoutError("etcd does not answer", 1),
	} {
		t.Run(name, func(t *testing.T) {
			var evictions, reads atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls := &reads
				if strings.HasSuffix(r.URL.Path, "/eviction") {
					calls = &evictions
				}
				w.Header().Set("Content-Type", "application/json")
				if calls.Add(1) > 1 {
					_ = json.NewEncoder(w).Encode(corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}})
					return
				}
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(int(refusal.ErrStatus.Code))
				body := refusal.ErrStatus
				body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				_ = json.NewEncoder(w).Encode(body)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			config.Wrap(drain.AskOnce)
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
			err = c.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})
			if evictions.Load() != 1 || apierrors.ReasonForError(err) != refusal.ErrStatus.Reason {
				t.Fatalf("it was asked for %d times: %v", evictions.Load(), err)
			}
			if name == "429" && drain.ResultOf("uid", err).RetryAfter != time.Second {
				t.Errorf("%+v", drain.ResultOf("uid", err))
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || reads.Load() != 2 {
				t.Errorf("it was read %d times: %v", reads.Load(), err)
			}
		})
	}
}
