package rules

import "testing"

func TestCapacity(t *testing.T) {
	for name, want := range map[string]string{"n2d-standard-4": "n2d", "custom-2-4096": "custom", "odd": ""} {
		if got := Family(name); got != want {
			t.Errorf("family of %s: %q, want %q", name, got, want)
		}
	}
	for want, args := range map[string]map[string]any{
		"": {"ProvisioningModel": nil}, "ProvisioningModel": {"ProvisioningModel": "STANDARD"}, "Preemptible": {"Preemptible": false}, "ReservationAffinity": {"ReservationAffinity": map[string]any{}},
	} {
		if got := New().Capacity.FixedBy(args); got != want {
			t.Errorf("%v: fixed by %q, want %q", args, got, want)
		}
	}
}
