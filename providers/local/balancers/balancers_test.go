package balancers

import (
	"testing"

	"nstance.dev/providers/local/store"
	"nstance.dev/server/driver"
)

func TestBalancerThatNobodyMade(t *testing.T) {
	machines, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := New(t.TempDir(), machines)
	for _, key := range []string{"www", "../escape", ""} {
		err := d.LBRegister(t.Context(), driver.LoadBalancer{Key: key}, driver.Ref{InstanceID: "knc068a3cp3thz5z2mv1gejwftabc"})
		want := driver.Invalid
		if key == "www" {
			want = driver.MissingRef
		}
		if driver.ClassOf(err) != want {
			t.Errorf("%q: %v, want an error of class %s", key, err, want)
		}
	}
}
