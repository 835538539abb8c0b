package capi_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/capi"
	"nstance.dev/operator/testworld"
)

func TestOwnerMachine(t *testing.T) {
	c := testworld.NewClientBuilder(t).
		WithObjects(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-0"}}).Build()
	object := func(refs ...metav1.OwnerReference) client.Object {
		return &infrav1.NstanceMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i-1", OwnerReferences: refs}}
	}
	ref := func(apiVersion, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
	current, older := clusterv1.GroupVersion.String(), clusterv1.GroupVersion.Group+"/v1beta1"
	for _, test := range []struct {
		name   string
		object client.Object
		want   string
	}{
		{"no owner", object(), ""},
		{"a Machine", object(ref(current, "Machine", "web-0")), "web-0"},
		{"a Machine of another version", object(ref(older, "Machine", "web-0")), "web-0"},
		{"a Machine beside its pool", object(ref(infrav1.GroupVersion.String(), infrav1.KindMachinePool, "web"), ref(current, "Machine", "web-0")), "web-0"},
		{"a Machine of another API group", object(ref("machine.openshift.io/v1beta1", "Machine", "web-0")), ""},
		{"an API version that cannot be parsed", object(ref("a/b/c", "Machine", "web-0")), ""},
		{"another kind", object(ref(current, "MachineSet", "web-0")), ""},
		{"a Machine that does not exist", object(ref(current, "Machine", "web-9")), ""},
	} {
		owner, err := capi.OwnerMachine(t.Context(), c, test.object)
		got := ""
		if owner != nil {
			got = owner.Name
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}

	down := errors.New("down")
	broken := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
	})
	if _, err := capi.OwnerMachine(t.Context(), broken, object(ref(current, "Machine", "web-0"))); !errors.Is(err, down) {
		t.Errorf("an API server that does not answer: %v", err)
	}
}
