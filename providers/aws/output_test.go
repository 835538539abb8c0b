package aws_test

import (
	"testing"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
)

// Of machines that are not on Nitro EC2 has an older text, and refuses to tell the latest.
func TestOutputOfOldHardware(t *testing.T) {
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		d := w.driver(t, "")
		m, err := d.Create(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(m.ProviderID, "booted\n")
		for _, old := range []bool{false, true} {
			w.SetOldHardware(old)
			out, err := d.Output(t.Context(), driver.Ref{InstanceID: m.InstanceID}, driver.Console)
			if err != nil || string(out.Data) != "booted\n" || out.Cut {
				t.Errorf("old hardware %t: %q, %t, %v", old, out.Data, out.Cut, err)
			}
		}
	})
}
