package pullsecrets

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/operator/testworld"
)

// M99: a Secret is missing if the API server says so, and only then; an answer counts for a while.
func TestM99_Missing(t *testing.T) {
	asked, broken := 0, false
	api := interceptor.NewClient(testworld.NewClientBuilder(t).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if asked++; broken {
				return errors.New("the API server breaks")
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	now := time.Unix(1000, 0)
	c := New(api, "nstance", func() time.Time { return now })
	for range 2 {
		if !c.Missing(t.Context(), "s") || asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	}
	if err := api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "nstance", Name: "s"}}); err != nil {
		t.Fatal(err)
	}
	if now = now.Add(Fresh - 1); !c.Missing(t.Context(), "s") {
		t.Error("asked again too soon")
	}
	if now = now.Add(1); c.Missing(t.Context(), "s") {
		t.Error("missing, although it exists")
	}
	broken = true
	if c.Missing(t.Context(), "other") {
		t.Error("missing, although nobody said so")
	}
	broken = false
	if !c.Missing(t.Context(), "other") {
		t.Error("not missing, although the API server says so")
	}
}
