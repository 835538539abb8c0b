package rules

import (
	"math"
	"testing"

	"nstance.dev/server/driver"
)

func TestCapacityOfTypes(t *testing.T) {
	for name, want := range map[string]struct {
		family   string
		perMonth float64
	}{
		"m7g.large": {"m7g", 0.05}, "t3.micro": {"t3", 0.05}, "g5.xlarge": {"g5", 0.20}, "p4d.24xlarge": {"p4d", 0.20}, "inf2.xlarge": {"inf2", 0.20},
		"gr6.4xlarge": {"gr6", 0.20}, "u7in-16tb.224xlarge": {"u7in-16tb", 0.05}, "odd": {"", 0.05},
	} {
		if got := Family(name); got != want.family {
			t.Errorf("family of %s: %q, want %q", name, got, want.family)
		}
		if got := Interruption(name); math.Abs(got*730-want.perMonth) > 1e-9 {
			t.Errorf("interruption of %s: %g an hour, want %g a month", name, got, want.perMonth)
		}
	}
}

func TestArgumentsThatFixTheMarket(t *testing.T) {
	for want, args := range map[string]map[string]any{
		"": {"ImageId": "ami-1", "InstanceMarketOptions": nil}, "InstanceMarketOptions": {"InstanceMarketOptions": "{{ .Vars.market }}"},
		"CapacityReservationSpecification": {"CapacityReservationSpecification": map[string]any{}},
	} {
		if got := New().Capacity.FixedBy(args); got != want {
			t.Errorf("%v: fixed by %q, want %q", args, got, want)
		}
	}
}

func TestDiskOfTheArguments(t *testing.T) {
	for want, mappings := range map[int]any{
		0: nil, 20: []any{map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{"VolumeSize": 20}}},
		50: []any{map[string]any{"DeviceName": "/dev/sdb", "VirtualName": "ephemeral0"}, map[string]any{"Ebs": map[string]any{"VolumeSize": "50"}}},
	} {
		if got := traits("m7g.large", map[string]any{"BlockDeviceMappings": mappings}); got != (driver.Traits{DiskGiB: want}) {
			t.Errorf("%v: %+v, want a disk of %d GiB", mappings, got, want)
		}
	}
}
