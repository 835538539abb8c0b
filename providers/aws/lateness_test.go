package aws_test

import (
	"testing"
	"time"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
)

// F19, S5: a token whose machine is on its way out is used up, though EC2 still answers
// with that machine.
func TestF19_TokenOfAMachineThatEndsIsUsedUp(t *testing.T) {
	inWorld(t, awsfake.Options{End: time.Minute}, func(t *testing.T, w *world) {
		req := request(t)
		made, err := w.driver(t, "").Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.driver(t, "").Delete(t.Context(), driver.Ref{ProviderID: made.ProviderID}); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"while it shuts down", "when it has ended"} {
			m, err := w.driver(t, "").Create(t.Context(), req) // by a process that knows nothing of its end
			wantKind(t, when, err, driver.Invalid)
			if err == nil {
				t.Errorf("%s it is taken for new: %+v", when, m)
			}
			w.pass(2 * time.Minute)
		}
	})
}

// F20, S4: that EC2 does not know a machine right after it was made is no proof that it
// has ended.
func TestF20_DeleteRightAfterACreateIsRepeated(t *testing.T) {
	inWorld(t, awsfake.Options{Lag: 10 * time.Second, LagAll: true}, func(t *testing.T, w *world) {
		d, req := w.driver(t, ""), request(t)
		made, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: req.InstanceID, ProviderID: made.ProviderID}
		wantKind(t, "a delete that EC2 does not understand yet", d.Delete(t.Context(), ref), driver.Transient)
		w.pass(11 * time.Second)
		if err := d.Delete(t.Context(), ref); err != nil {
			t.Error(err)
		}
		w.pass(time.Second)
		if alive := w.alive(); len(alive) != 0 {
			t.Errorf("it is still there: %+v", alive)
		}
	})
}
