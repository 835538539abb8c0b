package catalog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/catalog"
	"nstance.dev/server/driver"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestOffer(t *testing.T) {
	var b catalog.Book
	b.Listed([]driver.InstanceType{
		{Name: "small", VCPU: 2, MemoryMiB: 4096},
		{Name: "wide", VCPU: 4, MemoryMiB: 2048},
		{Name: "gpu", VCPU: 8, MemoryMiB: 65536, GPUs: 4, GPUModel: "A10G"},
		{Name: "gpu-one", VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "A10G"},
		{Name: "gpu-other", VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "T4"},
	}, start)
	for name, test := range map[string]struct {
		types []string
		want  catalog.Offer
	}{
		"one":                     {[]string{"small"}, catalog.Offer{VCPU: 2, MemoryMiB: 4096}},
		"the least of both":       {[]string{"small", "wide"}, catalog.Offer{VCPU: 2, MemoryMiB: 2048}},
		"the least of one model":  {[]string{"gpu", "gpu-one"}, catalog.Offer{VCPU: 4, MemoryMiB: 16384, GPUs: 1, GPUModel: "A10G"}},
		"two models are neither":  {[]string{"gpu-one", "gpu-other"}, catalog.Offer{VCPU: 4, MemoryMiB: 16384}},
		"one without accelerator": {[]string{"gpu-one", "small"}, catalog.Offer{VCPU: 2, MemoryMiB: 4096}},
		"one that is not known":   {[]string{"small", "other"}, catalog.Offer{}},
		"none":                    {nil, catalog.Offer{}},
	} {
		if diff := cmp.Diff(test.want, b.Offer(test.types)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestListings(t *testing.T) {
	var b catalog.Book
	if !b.Due().IsZero() {
		t.Errorf("the first listing is due %v, want at once", b.Due())
	}
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour} {
		b.Failed(start)
		if got := b.Due().Sub(start); got != want {
			t.Errorf("after %d failures the next listing is due in %v, want %v", i+1, got, want)
		}
	}
	list := []driver.InstanceType{{Name: "small", VCPU: 2, HourlyUSD: 0.04}}
	if !b.Listed(list, start) {
		t.Error("the first listing is no news")
	}
	if got := b.Due().Sub(start); got != 12*time.Hour {
		t.Errorf("after a listing the next one is due in %v, want 12h", got)
	}
	list[0].HourlyUSD = 0.05
	if b.Listed(list, start) {
		t.Error("a price is news")
	}
	b.Failed(start)
	if got := b.Offer([]string{"small"}); got.VCPU != 2 {
		t.Errorf("a listing that failed left %+v of what was known", got)
	}
	if got := b.Due().Sub(start); got != 30*time.Second {
		t.Errorf("after a success the first failure is tried again in %v, want 30s", got)
	}
}

func TestResources(t *testing.T) {
	for _, test := range []struct {
		offer catalog.Offer
		want  map[string]string
	}{
		{catalog.Offer{}, map[string]string{}},
		{catalog.Offer{VCPU: 2, MemoryMiB: 4096, GPUs: 1, GPUModel: "T4"}, map[string]string{"cpu": "2", "memory": "4096Mi"}},
		{catalog.Offer{}.Or(catalog.Offer{VCPU: 4, GPUs: 2, GPUModel: "T4"}), map[string]string{"cpu": "4"}},
	} {
		if diff := cmp.Diff(test.want, test.offer.Resources()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.offer, diff)
		}
	}
}
