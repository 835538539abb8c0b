package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/cluster"
	"nstance.dev/operator/testworld"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestConditions(t *testing.T) {
	registered := metav1.Condition{
		Type: "OperatorRegistered", Status: "True", Reason: "Registered", Message: "the certificate is good until 2026-11-01T13:00:00Z; secret nonce may be deleted",
	}
	reachable := metav1.Condition{Type: "WorkloadReachable", Status: "True", Reason: "Reachable", Message: "the API server answers"}
	tests := []struct {
		name string
		view cluster.OperatorView
		want []metav1.Condition
	}{
		{"all is well", cluster.OperatorView{Nonce: "nonce", CertificateUntil: now.Add(time.Hour)}, []metav1.Condition{registered, reachable}},
		{"it is not registered", cluster.OperatorView{Nonce: "nonce", Unregistered: &cluster.Problem{Reason: "NonceMissing", Message: "no nonce"}}, []metav1.Condition{
			{Type: "OperatorRegistered", Status: "False", Reason: "NonceMissing", Message: "no nonce"}, reachable,
		}},
		{"the certificate has ended", cluster.OperatorView{Nonce: "nonce", CertificateUntil: now}, []metav1.Condition{
			{Type: "OperatorRegistered", Status: "False", Reason: "CertificateExpired", Message: "the certificate ended at 2026-11-01T12:00:00Z; put a new nonce into secret nonce"},
			reachable,
		}},
		{"no kubeconfig", cluster.OperatorView{Nonce: "nonce", CertificateUntil: now.Add(time.Hour), Kubeconfig: "it is missing", Workload: errors.New("no")}, []metav1.Condition{
			registered, {Type: "WorkloadReachable", Status: "False", Reason: "KubeconfigMissing", Message: "it is missing"},
		}},
		{"no answer", cluster.OperatorView{Nonce: "nonce", CertificateUntil: now.Add(time.Hour), Workload: errors.New("refused")}, []metav1.Condition{
			registered, {Type: "WorkloadReachable", Status: "False", Reason: "Unreachable", Message: "refused"},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, cluster.OperatorConditions(test.view, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestConditionsAreWrittenBesideThoseOfOthers(t *testing.T) {
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	c := testworld.NewClientBuilder(t).WithStatusSubresource(&infrav1.NstanceCluster{}).WithObjects(&infrav1.NstanceCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
	}).Build()
	var workload error
	recorder := events.NewFakeRecorder(10)
	r := &cluster.OperatorReconciler{
		Events: recorder,
		Client: c, Namespace: "ns", Name: "c", Now: func() time.Time { return now },
		View: func(context.Context) cluster.OperatorView {
			return cluster.OperatorView{Nonce: "nonce", CertificateUntil: now.Add(time.Hour), Workload: workload}
		},
	}
	pass := func() *infrav1.NstanceCluster {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter != time.Minute {
			t.Errorf("%v, comes back after %v", err, result.RequeueAfter)
		}
		var o infrav1.NstanceCluster
		if err := c.Get(t.Context(), key, &o); err != nil {
			t.Fatal(err)
		}
		return &o
	}
	first := pass()
	if n := len(first.Status.Conditions); n != 2 {
		t.Errorf("%d conditions", n)
	}
	if again := pass(); again.ResourceVersion != first.ResourceVersion {
		t.Error("it was written without a change")
	}
	workload = errors.New("refused")
	if o := pass(); o.Status.Conditions[1].Reason != "Unreachable" {
		t.Errorf("%+v", o.Status.Conditions)
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "gone"}}); err != nil {
		t.Errorf("of one that is gone: %v", err)
	}
	close(recorder.Events)
	var said []string
	for e := range recorder.Events {
		said = append(said, e)
	}
	if diff := cmp.Diff([]string{"Normal Registered the certificate is good until 2026-11-01T13:00:00Z; secret nonce may be deleted"}, said); diff != "" {
		t.Error(diff)
	}
}
