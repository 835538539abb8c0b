package driver_test

import (
	"context"
	"errors"
	"testing"

	"nstance.dev/server/driver"
)

func TestProbe(t *testing.T) {
	for name, tt := range map[string]struct {
		err error
		ok  bool
	}{
		"the machine is not there":  {driver.Fail(driver.NotFound, "get", nil), true},
		"there is one all the same": {nil, true},
		"too many questions":        {driver.Fail(driver.Throttled, "get", nil), true},
		"no permission":             {driver.Fail(driver.Auth, "get", nil), false},
		"the provider is ill":       {driver.Fail(driver.Transient, "get", nil), false},
		"no answer":                 {context.DeadlineExceeded, false},
		"an error without a kind":   {errors.New("no route"), false},
	} {
		err := driver.Probe(t.Context(), func(context.Context, driver.Ref) (driver.Machine, error) { return driver.Machine{}, tt.err })
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
