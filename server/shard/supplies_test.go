package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/fleet"
	"nstance.dev/server/masking"
	"nstance.dev/server/retry"
)

// withImages is a shard whose machines are made from the newest image.
func withImages(fallback string) worldOptions {
	return worldOptions{
		Able:     true,
		Images:   fmt.Sprintf(`{"os": {"provider": "local", "filters": [{"name": "name", "values": ["debian-*"]}], "fallback": %q}}`, fallback),
		Args:     `{"ImageId": "{{ .Image.os }}"}`,
		Interval: "10s",
	}
}

// madeFrom are the images of a group's machines, by what their create calls and
// their records say.
func (w *world) madeFrom(group fleet.GroupID) string {
	var all []string
	for _, vm := range w.vms(group) {
		all = append(all, fmt.Sprint(vm.Request.Args["ImageId"]))
	}
	for _, rec := range w.records() {
		all = append(all, rec.ImageID)
	}
	return strings.Join(all, " ")
}

func TestNewestImageIsUsedAndRecorded(t *testing.T) {
	inWorld(t, withImages(""), func(t *testing.T, w *world) {
		w.settle(time.Minute) // there was no image at first
		w.cloud.SetImages(drivertest.Image{ID: "img-1", Name: "debian-1"})
		w.settle(5 * time.Minute)
		w.scale(web, 1)
		w.settle(time.Minute)
		w.converged(1)
		w.cloud.SetImages(drivertest.Image{ID: "img-1", Name: "debian-1"}, drivertest.Image{ID: "img-2", Name: "debian-2"})
		w.settle(6 * time.Hour)
		if made := w.cloud.Created(); made != 1 {
			t.Errorf("%d machines were made: a new image replaces none", made)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		w.converged(2)
		if got, want := w.madeFrom(web), "img-1 img-2 img-1 img-2"; got != want {
			t.Errorf("made from %s, want %s", got, want)
		}
		if n := w.count(drivertest.OpImage); n > 12 {
			t.Errorf("%d look-ups in six hours", n)
		}
	})
}

func TestImageLookupThatFails(t *testing.T) {
	for name, c := range map[string]struct{ fallback, want string }{
		"without a fallback nothing is made": {"", ""},
		"with one it is used":                {"img-f", "img-f img-f"},
	} {
		t.Run(name, func(t *testing.T) {
			other := fleet.GroupID{Tenant: "b", Name: "other"}
			opts := withImages(c.fallback)
			inWorld(t, opts, func(t *testing.T, w *world) {
				w.cloud.SetFaults(drivertest.Always(drivertest.OpImage, drivertest.Fail(driver.Auth)))
				w.stop()
				w.lead()
				w.scale(web, 1)
				w.scale(other, 0)
				w.settle(time.Minute)
				if got := w.madeFrom(web); got != c.want {
					t.Errorf("made from %q, want %q", got, c.want)
				}
				said := strings.Join(w.said(web), "\n")
				if blamed := strings.Contains(said, `image "os"`); blamed != (c.want == "") {
					t.Errorf("said %q", said)
				}
				w.cloud.SetFaults(nil)
				w.cloud.SetImages(drivertest.Image{ID: "img-1", Name: "debian-1"})
				w.settle(12 * time.Minute) // a look-up and a create in their back-offs
				w.converged(1)
			})
		})
	}
}

// TestS16_ImageFoundBeforeARestartCounts, when the look-up of the next leader
// fails. It stands in the cache, which outlives the process.
func TestS16_ImageFoundBeforeARestartCounts(t *testing.T) {
	opts := withImages("img-f")
	opts.CachePath = t.TempDir() + "/cache.db"
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.cloud.SetImages(drivertest.Image{ID: "img-1", Name: "debian-1"})
		w.settle(10 * time.Minute)
		w.stop()
		w.cloud.SetFaults(drivertest.Always(drivertest.OpImage, drivertest.Fail(driver.Transient)))
		w.lead()
		w.scale(web, 1)
		w.settle(time.Minute)
		if got := w.madeFrom(web); got != "img-1 img-1" {
			t.Errorf("made from %q, want the image that was found before", got)
		}
	})
}

// TestL7_SlowLookupHoldsUpWhoeverNeedsIt and nobody else.
func TestL7_SlowLookupHoldsUpWhoeverNeedsIt(t *testing.T) {
	opts := withImages("img-f")
	opts.Groups = `{"default": {}, "b": {"bare": {"template": "bare", "size": 2}}}`
	inWorld(t, opts, func(t *testing.T, w *world) {
		w.cloud.SetFaults(drivertest.Always(drivertest.OpImage, drivertest.Fault{Latency: time.Hour}))
		w.stop()
		w.lead()
		w.scale(web, 1)
		w.settle(4 * time.Second) // the request time-out is five
		if got, bare := len(w.vms(web)), len(w.vms(fleet.GroupID{Tenant: "b", Name: "bare"})); got != 0 || bare != 2 {
			t.Errorf("%d machines that need the image and %d that do not, want 0 and 2", got, bare)
		}
		w.settle(2 * time.Second)
		if got := len(w.vms(web)); got != 1 {
			t.Errorf("%d machines once the look-up has failed, want one of the fallback", got)
		}
	})
}

// fakeWeb serves user data.
type fakeWeb struct {
	mu      sync.Mutex
	text    string
	err     error
	slow    time.Duration
	fetches int
}

func (f *fakeWeb) set(text string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.err = text, err
}

func (f *fakeWeb) fetch(ctx context.Context, _ string) ([]byte, error) {
	f.mu.Lock()
	f.fetches++
	text, err, slow := f.text, f.err, f.slow
	f.mu.Unlock()
	if slow > 0 {
		if err := retry.Wait(ctx, slow); err != nil {
			return nil, err
		}
	}
	return []byte(text), err
}

func withUserdata(web *fakeWeb) worldOptions {
	return worldOptions{Userdata: `{"source": "url", "content": "https://host/userdata"}`, Fetch: web.fetch}
}

func TestUserdataIsFetchedOnceForABurst(t *testing.T) {
	site := &fakeWeb{text: "{{ .Nonce }}", slow: 3 * time.Second}
	inWorld(t, withUserdata(site), func(t *testing.T, w *world) {
		w.scale(web, 50)
		w.settle(2 * time.Second)
		if n := w.count(drivertest.OpCreate); n != 0 {
			t.Errorf("%d creates before the user data is there", n)
		}
		w.settle(time.Minute)
		w.converged(50)
		if site.fetches != 1 {
			t.Errorf("fetched %d times for 50 machines at once", site.fetches)
		}
		site.set("{{ .Nonce }} # 2", nil)
		w.settle(time.Minute)
		w.dead.Store(true)
		w.scale(web, 51)
		w.settle(10 * time.Second)
		vms := w.vms(web)
		if last := string(vms[len(vms)-1].Request.UserData); !strings.HasSuffix(last, " # 2") || site.fetches != 2 {
			t.Errorf("a later machine has user data that ends with %q, after %d fetches", last[max(len(last)-6, 0):], site.fetches)
		}
	})
}

func TestUserdataThatCannotBeFetched(t *testing.T) {
	site := &fakeWeb{err: errors.New("user data from https://host/userdata: status 503")}
	inWorld(t, withUserdata(site), func(t *testing.T, w *world) {
		w.scale(web, 2)
		w.settle(10 * time.Minute)
		if n := len(w.records()); n != 0 || w.count(drivertest.OpCreate) != 0 {
			t.Errorf("%d records without user data", n)
		}
		if said := w.said(web); len(said) != 1 || !strings.Contains(said[0], "status 503") {
			t.Errorf("said %q, want the reason once", said)
		}
		if site.fetches > 12 {
			t.Errorf("fetched %d times in ten minutes of failures", site.fetches)
		}
		site.set("{{ .Nonce }}", nil)
		w.settle(7 * time.Minute)
		w.converged(2)
		site.set("", errors.New("down"))
		w.settle(30 * time.Minute)
		w.scale(web, 3)
		w.settle(time.Minute)
		w.converged(3) // of the copy
		if said := w.errors(web); !strings.Contains(said, "are made with the copy of 2000-01-01T") {
			t.Errorf("the tenant is told %q, want that it is a copy", said)
		}
	})
}

func TestUserdataBeyondTheLimitIsACreateError(t *testing.T) {
	site := &fakeWeb{text: `{{ range $i := .Vars }}{{ end }}` + strings.Repeat("x", 1<<20)}
	inWorld(t, withUserdata(site), func(t *testing.T, w *world) {
		w.scale(web, 1)
		w.settle(time.Minute)
		if n := w.count(drivertest.OpCreate); n != 0 {
			t.Errorf("%d creates", n)
		}
		if said := w.said(web); len(said) != 1 || !strings.HasPrefix(said[0], "invalid: ") {
			t.Errorf("said %q, want that the user data is too large", said)
		}
	})
}

// What stands at the address of the user data says nothing of a machine that was made before it changed.
func TestS14_UserdataThatHasChangedAtItsAddressMasksNothing(t *testing.T) {
	site := &fakeWeb{text: "password=plum-4f9c2e71 {{ .Nonce }}"}
	inWorld(t, withUserdata(site), func(t *testing.T, w *world) {
		mask := func(in cache.Instance) (masking.Mask, error) { return w.term().requests.maskOf(w.ctx, in) }
		w.scale(web, 1)
		w.settle(time.Minute)
		m, err := mask(w.members(web)[0])
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := m.Apply("+ password=plum-4f9c2e71"); strings.Contains(text, "plum") {
			t.Errorf("it is told %q", text)
		}
		site.set("password=fig {{ .Nonce }}", nil)
		if _, err := mask(w.members(web)[0]); err == nil || !strings.Contains(err.Error(), "not known to be made from what stands at the address") {
			t.Errorf("after a change: %v", err)
		}
		w.scale(web, 2)
		w.settle(time.Minute)
		told := 0
		for _, in := range w.members(web) {
			if _, err := mask(in); err == nil {
				told++
			}
		}
		if all := len(w.members(web)); told != 1 || all != 2 {
			t.Errorf("the output of %d of %d machines is told, want that of the one made since", told, all)
		}
	})
}

func TestOnDemandInstanceWaitsForItsUserdata(t *testing.T) {
	site := &fakeWeb{text: "{{ .Nonce }}", slow: time.Second}
	inWorld(t, withUserdata(site), func(t *testing.T, w *world) {
		w.scale(web, 0)
		_, err := w.term().requests.CreateInstance(w.ctx, web.Tenant, InstanceRequest{Group: web.Name})
		if err != nil {
			t.Fatal(err)
		}
		w.settle(time.Minute)
		w.converged(1)
	})
}
