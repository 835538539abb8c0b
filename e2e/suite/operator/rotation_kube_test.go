//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O8: Cluster API keeps its sight of the Nodes through three changes of its token, each of
// which is the end of the one before: their account is made anew, and that the token in
// the Secret is over is said there.
func TestO8_CoreOutlivesItsTokens(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "tokens", "shards: [a]", 0)
	for round := range 3 {
		before := s.kubeconfigOfCore(t)
		s.renewAccount(t)
		s.expire(t)
		kube.Await(t, "there is another token", func(context.Context) error {
			if s.kubeconfigOfCore(t) == before {
				return fmt.Errorf("it is the same")
			}
			return nil
		})
		s.scale(t, "tokens", round+1)
		kube.Await(t, "Cluster API finds the Node", s.settled("tokens", round+1))
	}
}

// kubeconfigOfCore returns what Cluster API connects with.
func (s *system) kubeconfigOfCore(t *testing.T) string {
	t.Helper()
	secret, err := s.client.CoreV1().Secrets(s.namespace).Get(t.Context(), s.cluster()+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data["value"])
}

// renewAccount replaces the ServiceAccount of Cluster API by one of the same name, to which no
// token of the old one belongs.
func (s *system) renewAccount(t *testing.T) {
	t.Helper()
	accounts := s.client.CoreV1().ServiceAccounts(s.namespace)
	old, err := accounts.Get(t.Context(), coreAccount, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := accounts.Delete(t.Context(), coreAccount, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: coreAccount, Labels: old.Labels, Annotations: old.Annotations},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// expire has the Secret say that its token ends now, as it does when nobody renewed it in time.
func (s *system) expire(t *testing.T) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, infrav1.AnnotationTokenExpiry, "2026-01-01T00:00:00Z")
	_, err := s.client.CoreV1().Secrets(s.namespace).Patch(t.Context(), s.cluster()+"-kubeconfig", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
