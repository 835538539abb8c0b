package aws_test

import (
	"testing"
	"time"

	"nstance.dev/providers/aws"
	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
)

func spot(t *testing.T) driver.CreateRequest {
	t.Helper()
	req := request(t)
	req.Args["InstanceMarketOptions"] = map[string]any{"MarketType": "spot"}
	return req
}

// F29: what EC2 shows as the token of a spot instance is not documented. Without it the
// instance is ours all the same, and a copy of it is not.
func TestF29_SpotMachinesWithoutTheirTokenAreFound(t *testing.T) {
	inWorld(t, awsfake.Options{HideSpotTokens: true}, func(t *testing.T, w *world) {
		d, req := w.driver(t, ""), spot(t)
		made, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		other := w.driver(t, "") // after a change of leader
		for what, ref := range map[string]driver.Ref{
			"its id": {InstanceID: req.InstanceID}, "the provider's id": {ProviderID: made.ProviderID}, "both": {InstanceID: req.InstanceID, ProviderID: made.ProviderID},
		} {
			if m, err := other.Get(t.Context(), ref); err != nil || m.InstanceID != req.InstanceID || m.ProviderID != made.ProviderID {
				t.Errorf("get by %s: %+v, %v", what, m, err)
			}
		}
		listed := func() map[string]driver.Machine {
			t.Helper()
			list, err := other.List(t.Context(), owner)
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]driver.Machine{}
			for _, m := range list {
				by[m.ProviderID] = m
			}
			return by
		}
		if m := listed()[made.ProviderID]; m.InstanceID != req.InstanceID {
			t.Errorf("listed as %+v", m)
		}

		copied := w.Copy(made.ProviderID)
		if list := listed(); len(list) != 2 || list[copied].InstanceID != "" || list[made.ProviderID].InstanceID != "" {
			t.Errorf("of two with one tag and no token nobody knows which is which: %+v", list)
		}
		if err := other.Delete(t.Context(), driver.Ref{ProviderID: copied}); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Hour)
		if m := listed()[made.ProviderID]; m.InstanceID != req.InstanceID {
			t.Errorf("after the copy has ended it is listed as %+v", m)
		}
		late := w.Copy(made.ProviderID)
		if list := listed(); list[late].InstanceID != "" {
			t.Errorf("a copy that was made hours later is %+v", list[late])
		}
		w.Remove(made.ProviderID)
		if list := listed(); len(list) != 1 || list[late].InstanceID != "" {
			t.Errorf("and when the machine has ended: %+v", list)
		}
	})
}

// F29: an instance of another kind is ours by its token alone.
func TestF29_CopiesOnDemandAreNotOurs(t *testing.T) {
	inWorld(t, awsfake.Options{HideSpotTokens: true}, func(t *testing.T, w *world) {
		d, req := w.driver(t, ""), request(t)
		made, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		copied := w.Copy(made.ProviderID)
		w.Remove(made.ProviderID)
		m, err := d.Get(t.Context(), driver.Ref{ProviderID: copied})
		if err != nil || m.InstanceID != "" || m.RawID != string(req.InstanceID) {
			t.Errorf("the copy is %+v, %v", m, err)
		}
	})
}

// A launch that EC2 takes and then fails to carry out says why.
func TestL3_FailedLaunchHasAReason(t *testing.T) {
	opts := slow()
	opts.Lag = 0
	inWorld(t, opts, func(t *testing.T, w *world) {
		d, req := w.driver(t, ""), request(t)
		w.DoomFor(1, "Client.InternalError", "Client error on launch")
		if _, err := d.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID}); err != nil || m.Reason != "" {
			t.Errorf("while it is pending: %+v, %v", m, err)
		}
		w.pass(time.Minute)
		m, err := d.Get(t.Context(), driver.Ref{InstanceID: req.InstanceID})
		if err != nil || m.Status != driver.Deleted || m.Reason != "Client.InternalError: Client error on launch" {
			t.Errorf("after its launch has failed: %+v, %v", m, err)
		}
	})
}

// A machine in another zone than the shard's would have a URI that names the wrong one.
func TestSubnetsOfOtherZonesAreRefused(t *testing.T) {
	const elsewhere = "subnet-0a1100000000000b"
	inWorld(t, awsfake.Options{}, func(t *testing.T, w *world) {
		_, err := w.driver(t, "").CheckSubnet(t.Context(), elsewhere)
		wantKind(t, "a subnet of another zone", err, driver.Invalid)
		d := w.driver(t, "", func(o *aws.Options) { o.OtherZones = true })
		if free, err := d.CheckSubnet(t.Context(), elsewhere); err != nil || free <= 0 {
			t.Errorf("where other zones are allowed: %d, %v", free, err)
		}
		if free, err := w.driver(t, "").CheckSubnet(t.Context(), servers); err != nil || free <= 0 {
			t.Errorf("a subnet of the zone: %d, %v", free, err)
		}
	})
}
