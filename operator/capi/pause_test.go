package capi_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/testworld"
)

func TestO16_Paused(t *testing.T) {
	cluster := func(name string, paused *bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: clusterv1.ClusterSpec{Paused: paused}}
	}
	c := testworld.NewClientBuilder(t).
		WithObjects(cluster("paused", ptr.To(true)), cluster("runs", nil)).Build()
	object := func(cluster string, annotations map[string]string) client.Object {
		o := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Annotations: annotations}}
		if cluster != "" {
			o.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		}
		return o
	}
	for _, test := range []struct {
		name   string
		object client.Object
		want   bool
	}{
		{"its Cluster is paused", object("paused", nil), true},
		{"its Cluster runs", object("runs", nil), false},
		{"its Cluster is gone", object("gone", nil), false},
		{"it has no Cluster", object("", nil), false},
		{"it lives on elsewhere", object("runs", map[string]string{infrav1.AnnotationDeleteForMove: ""}), true},
		{"it says so itself", object("runs", map[string]string{clusterv1.PausedAnnotation: ""}), true},
	} {
		got, err := capi.Paused(t.Context(), c, test.object)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}

	broken := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("away")
		},
	})
	if _, err := capi.Paused(t.Context(), broken, object("runs", nil)); err == nil {
		t.Error("an API server that is away says that nothing is paused")
	}
}

// Cluster API writes the status of a Cluster each time that one of its machines changes.
func TestO16_OnlyChangesThatMatterAreChangesOfACluster(t *testing.T) {
	changed := capi.ClusterChanged()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"a replica more": {func(c *clusterv1.Cluster) {
			c.Status.Workers = &clusterv1.WorkersStatus{ReadyReplicas: ptr.To[int32](3)}
		}, false},
		"a condition":           {func(c *clusterv1.Cluster) { c.Status.Conditions = []metav1.Condition{{Type: "RemoteConnectionProbe"}} }, false},
		"an annotation":         {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }, false},
		"it is paused":          {func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, true},
		"it is provisioned":     {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = ptr.To(true) }, true},
		"it has a controlplane": {func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "NstanceControlPlane" }, true},
		"it is being deleted":   {func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{}; *c.DeletionTimestamp = metav1.Now() }, true},
	} {
		before := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
		after := before.DeepCopy()
		test.change(after)
		if got := changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if !changed.Create(event.CreateEvent{Object: after}) || !changed.Delete(event.DeleteEvent{Object: after}) {
			t.Errorf("%s: a Cluster that comes or goes is no change", name)
		}
	}
}
