package provisioning

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/retry"
)

var errAway = errors.New("the web is away")

// elsewhere is a world whose user data stands at an address that answers after a second.
func elsewhere() settings {
	return settings{data: `{"source": "url", "content": "https://example.com/data"}`}
}

func (w *world) answers(after time.Duration, text string, err error) {
	w.fetch = func(ctx context.Context) ([]byte, error) {
		if retry.Wait(ctx, after) != nil {
			return nil, ctx.Err()
		}
		return []byte(text), err
	}
}

// TestL7_AGroupWaitsForAnswersWithoutAWorker: its creates are held back, and it is woken with
// the last answer.
func TestL7_AGroupWaitsForAnswersWithoutAWorker(t *testing.T) {
	inWorld(t, elsewhere(), func(t *testing.T, w *world) {
		w.answers(5*time.Second, "hello {{ .Nonce }}", nil)
		began := time.Now()
		if _, launched := w.launch(web); launched || time.Since(began) != 0 {
			t.Fatalf("launched is %t after %v", launched, time.Since(began))
		}
		w.launch(small) // the question is asked once
		if g := w.gate(web); g.By != fleet.BlockerUnproven || !strings.Contains(g.Why, "the user data of template plain") {
			t.Errorf("gate %+v", g)
		}
		w.wakes()
		pass(5*time.Second - 1)
		if n := w.wakes(); n != 0 {
			t.Errorf("woken %d times before the answer", n)
		}
		pass(1)
		if n := w.wakes(); n != 2 {
			t.Errorf("%d groups woken by the answer, want 2", n)
		}
		if g := w.gate(web); g != (fleet.Block{}) {
			t.Errorf("gate %+v after the answer", g)
		}
		id, _ := w.launch(web)
		w.wantMade(id)
		if vm, _ := w.cloud.Machine(id); !strings.HasPrefix(string(vm.Request.UserData), "hello ") {
			t.Errorf("user data %q", vm.Request.UserData)
		}
	})
}

// TestACallersInstanceWaitsForAnswers, for as long as the caller does.
func TestACallersInstanceWaitsForAnswers(t *testing.T) {
	inWorld(t, elsewhere(), func(t *testing.T, w *world) {
		w.answers(5*time.Second, "hello", nil)
		began := time.Now()
		id, launched := w.ask(web, Request{OnDemand: true})
		if !launched || time.Since(began) != 5*time.Second {
			t.Fatalf("launched is %t after %v", launched, time.Since(began))
		}
		w.wantMade(id)
		w.answers(time.Hour, "", nil)
		pass(time.Minute)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		eff, _ := w.Find(web)
		other, err := identity.NewID(eff.Kind)
		if err != nil {
			t.Fatal(err)
		}
		if launched, err := w.Launch(ctx, other, eff, Request{OnDemand: true}); launched || err == nil {
			t.Errorf("launched is %t, error %v", launched, err)
		}
	})
}

func TestUserDataThatCannotBeFetchedHoldsTheGroupBack(t *testing.T) {
	inWorld(t, elsewhere(), func(t *testing.T, w *world) {
		w.answers(0, "", errAway)
		w.launch(web)
		w.launch(web)
		wantSaid(t, w.said(), "transient: ")
		if g := w.gate(web); g.By != fleet.BlockerBackOff {
			t.Errorf("gate %+v", g)
		}
	})
}

// TestL8_SubnetsAreAskedAbout: where the provider can say how much room there is, no create
// has to find out.
func TestL8_SubnetsAreAskedAbout(t *testing.T) {
	inWorld(t, settings{able: true}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 0)
		w.cloud.SetFaults(drivertest.Always(drivertest.OpSubnet, drivertest.Fault{Latency: time.Second}))
		if _, launched := w.launch(web); launched {
			t.Fatal("it was launched before the answer")
		}
		pass(time.Second)
		id, _ := w.launch(web)
		w.wantMade(id)
		if vm, _ := w.cloud.Machine(id); vm.SubnetID != "net-2" || w.creates() != 1 {
			t.Errorf("made in %s by %d creates, want net-2 and 1", vm.SubnetID, w.creates())
		}
	})
}

// TestL8_RoomOfCreatesThatWereNotSentIsFree: what was counted for machines that nobody wants.
func TestL8_RoomOfCreatesThatWereNotSentIsFree(t *testing.T) {
	inWorld(t, settings{able: true}, func(t *testing.T, w *world) {
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-1"}, 1)
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-2"}, 0)
		w.cloud.SetRoom(drivertest.Place{Subnet: "net-3"}, 0)
		w.launch(web) // asks
		w.pause(true)
		id, _ := w.launch(web)
		w.wantGivenUp(id)
		w.pause(false)
		next, _ := w.launch(web)
		w.wantMade(next)
		w.launch(web)
		wantSaid(t, w.said(), "capacity: create: capacity: no room in pool")
	})
}

func TestL7_ALookUpHoldsUpWhoeverNeedsTheImage(t *testing.T) {
	image := settings{
		able: true, data: `{"content": "{{ .Image.base }} {{ .Nonce }}"}`,
		tenants: `"images": {"base": {"provider": "local", "filters": [{"name": "name", "values": ["debian-*"]}]}},`,
	}
	image.prepare = func(c *drivertest.Cloud) {
		c.SetImages(drivertest.Image{ID: "ami-1", Name: "debian-1"})
		c.SetFaults(drivertest.Always(drivertest.OpImage, drivertest.Fault{Latency: time.Second}))
	}
	inWorld(t, image, func(t *testing.T, w *world) {
		if _, launched := w.launch(web); launched || w.gate(web).By != fleet.BlockerUnproven {
			t.Fatalf("launched is %t before the look-up ended, gate %+v", launched, w.gate(web))
		}
		w.wakes()
		pass(time.Second)
		if n := w.wakes(); n != 1 {
			t.Errorf("woken %d times by the end of the look-up, want once", n)
		}
		w.launch(web) // asks about subnets
		id, _ := w.launch(web)
		w.wantMade(id)
		if rec, _ := w.instances.Record(id); rec.ImageID != "ami-1" {
			t.Errorf("its record says that it is made from %q", rec.ImageID)
		}
		if row, ok := w.rows.Image("base"); !ok || row.ImageID != "ami-1" {
			t.Errorf("kept is %+v", row)
		}
	})
	image.prepare = func(c *drivertest.Cloud) {
		c.SetFaults(drivertest.Always(drivertest.OpImage, drivertest.Fail(driver.Transient)))
	}
	inWorld(t, image, func(t *testing.T, w *world) {
		synctest.Wait()
		w.launch(web)
		if g := w.gate(web); g.By != fleet.BlockerImage {
			t.Errorf("gate %+v", g)
		}
	})
}
