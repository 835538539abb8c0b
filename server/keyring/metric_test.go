package keyring

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nstance.dev/server/objectstore/memory"
	"nstance.dev/server/pki"
)

// TestWhenTheAuthorityEnds: there is no value before there are keys, and then that of the certificate that signs.
func TestWhenTheAuthorityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newKeyWorld(t, memory.New(memory.Options{}))
		made := time.Now()
		time.Sleep(time.Hour)
		ends := func(k *Keyring) []float64 {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(k.Metric())
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var all []float64
			for _, family := range families {
				if name := family.GetName(); name != "nstance_authority_end_timestamp_seconds" {
					t.Errorf("a metric %s", name)
				}
				for _, one := range family.GetMetric() {
					if labels := one.GetLabel(); len(labels) != 1 || labels[0].GetName() != "cluster" || labels[0].GetValue() != "dev" {
						t.Errorf("the labels are %v", labels)
					}
					all = append(all, one.GetGauge().GetValue())
				}
			}
			return all
		}
		if got := ends(&Keyring{cluster: "dev"}); len(got) != 0 {
			t.Errorf("before there are keys: %v", got)
		}
		want := float64(made.Add(pki.DefaultCATTL).Unix())
		if got := ends(w.server(t)); len(got) != 1 || got[0] != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
