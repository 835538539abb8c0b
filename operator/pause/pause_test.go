package pause_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/pause"
)

func TestO16_Paused(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := func(name string, paused *bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: clusterv1.ClusterSpec{Paused: paused}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).
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
		got, err := pause.Of(t.Context(), c, test.object)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}

	broken := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("away")
		},
	})
	if _, err := pause.Of(t.Context(), broken, object("runs", nil)); err == nil {
		t.Error("an API server that is away says that nothing is paused")
	}
}
