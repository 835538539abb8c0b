package rules

import "nstance.dev/server/driver"

// traits says what arguments tell of a machine. What is still a template tells nothing.
func traits(_ string, args map[string]any) driver.Traits {
	d := newDraft()
	for _, name := range []string{"ProvisioningModel", "Preemptible"} {
		if value := args[name]; value != nil && !templated(value) && arguments[name](d, value) != nil {
			return driver.Traits{}
		}
	}
	return driver.Traits{Interruptible: text(d.scheduling, "provisioningModel") == "SPOT" || truth(d.scheduling, "preemptible")}
}
