package images_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"nstance.dev/server/driver"
	"nstance.dev/server/images"
)

var (
	epoch   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	errDown = errors.New("the cloud is down")
)

const interval = 6 * time.Hour

func debian(pattern, fallback string) images.Wanted {
	return images.Wanted{Query: driver.ImageQuery{Filters: []driver.ImageFilter{{Name: "name", Values: []string{pattern}}}}, Fallback: fallback}
}

func nothing(string) (string, time.Time) { return "", time.Time{} }

// book is one with the image "os".
func book(w images.Wanted, earlier string) *images.Book {
	b := images.New(true)
	b.Configure(map[string]images.Wanted{"os": w}, func(string) (string, time.Time) { return earlier, epoch.Add(-time.Hour) })
	return b
}

func TestWhatAKeyStandsFor(t *testing.T) {
	for name, c := range map[string]struct {
		fallback, earlier string
		found             string // by the look-up; empty: it fails
		want              images.State
	}{
		"found":                   {"", "", "img-1", images.State{ID: "img-1", Source: images.FromLookup, Found: epoch}},
		"found, with all others":  {"img-f", "img-0", "img-1", images.State{ID: "img-1", Source: images.FromLookup, Found: epoch}},
		"failed, found earlier":   {"img-f", "img-0", "", images.State{ID: "img-0", Source: images.FromCache, Found: epoch.Add(-time.Hour), Err: errDown}},
		"failed, with a fallback": {"img-f", "", "", images.State{ID: "img-f", Source: images.FromFallback, Err: errDown}},
		"failed":                  {"", "", "", images.State{Err: errDown}},
	} {
		t.Run(name, func(t *testing.T) {
			b := images.New(true)
			b.Configure(map[string]images.Wanted{"os": debian("debian-*", c.fallback)}, func(string) (string, time.Time) {
				if c.earlier == "" {
					return nothing("")
				}
				return c.earlier, epoch.Add(-time.Hour)
			})
			if got := b.Get("os"); got != (images.State{Pending: true}) {
				t.Errorf("before the look-up: %+v", got)
			}
			due, _ := b.Due(epoch)
			if len(due) != 1 || due[0].Key != "os" {
				t.Fatalf("due at the beginning: %+v", due)
			}
			if again, _ := b.Due(epoch); len(again) > 0 {
				t.Errorf("due while the look-up is under way: %+v", again)
			}
			if c.found != "" {
				b.Found(due[0], c.found, epoch, interval)
			} else {
				b.Failed(due[0], errDown, epoch, interval)
			}
			if got := b.Get("os"); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			want := map[string]string{"os": c.want.ID}
			if c.want.ID == "" {
				want = map[string]string{}
			}
			if got := b.Known(); !maps.Equal(got, want) {
				t.Errorf("known: %v, want %v", got, want)
			}
		})
	}
}

func TestLookupsAreDue(t *testing.T) {
	b := book(debian("debian-*", ""), "")
	now := epoch
	for i, pause := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
		due, _ := b.Due(now)
		if len(due) != 1 {
			t.Fatalf("try %d at %v: due %+v", i, now.Sub(epoch), due)
		}
		b.Failed(due[0], errDown, now, interval)
		_, next := b.Due(now)
		if want := now.Add(time.Duration(pause) * time.Second); !next.Equal(want) {
			t.Fatalf("after failure %d the next is due in %v, want %ds", i+1, next.Sub(now), pause)
		}
		now = next
	}
	due, _ := b.Due(now)
	b.Found(due[0], "img-1", now, interval)
	if due, next := b.Due(now.Add(interval - 1)); len(due) > 0 || !next.Equal(now.Add(interval)) {
		t.Errorf("after a success: due %+v, next in %v", due, next.Sub(now))
	}
	due, _ = b.Due(now.Add(interval))
	if b.Failed(due[0], errDown, now.Add(interval), interval) {
		t.Error("news where the image stays the same")
	}
	if _, next := b.Due(now.Add(interval)); !next.Equal(now.Add(interval + 5*time.Second)) {
		t.Errorf("after the first failure since: next in %v, want 5s", next.Sub(now.Add(interval)))
	}
}

func TestNewsIsAnotherImage(t *testing.T) {
	b := book(debian("debian-*", "img-f"), "")
	look := func() images.Query { due, _ := b.Due(epoch.Add(time.Hour * 1000)); return due[0] }
	for i, step := range []struct {
		found string
		news  bool
	}{{"", true}, {"img-1", true}, {"img-1", false}, {"", false}, {"img-2", true}} {
		var news bool
		if step.found == "" {
			news = b.Failed(look(), errDown, epoch, interval)
		} else {
			news = b.Found(look(), step.found, epoch, interval)
		}
		if news != step.news {
			t.Errorf("step %d, %q: news %t", i, step.found, news)
		}
	}
}

func TestConfigurationChanges(t *testing.T) {
	b := book(debian("debian-12-*", ""), "")
	due, _ := b.Due(epoch)
	b.Found(due[0], "img-12", epoch, interval)
	kept := debian("debian-12-*", "img-f")
	b.Configure(map[string]images.Wanted{"os": kept, "other": debian("fedora-*", "")}, nothing)
	if got := b.Get("os"); got.ID != "img-12" {
		t.Errorf("after an edit of the fallback: %+v", got)
	}
	due, _ = b.Due(epoch)
	if len(due) != 1 || due[0].Key != "other" {
		t.Errorf("due: %+v, want the new image alone", due)
	}
	b.Configure(map[string]images.Wanted{"os": debian("debian-13-*", "img-f")}, func(string) (string, time.Time) { return "img-12", epoch })
	if got := b.Get("os"); !got.Pending {
		t.Errorf("after an edit of the query: %+v, want that it is looked up anew", got)
	}
	if b.Found(due[0], "img-x", epoch, interval) || !errors.Is(b.Get("other").Err, images.ErrUnknown) {
		t.Error("the answer about an image that is not configured any more counts")
	}
	again, _ := b.Due(epoch)
	b.Failed(again[0], errDown, epoch, interval)
	if got := b.Get("os"); got.ID != "img-f" || got.Source != images.FromFallback {
		t.Errorf("what another query found counts: %+v", got)
	}
}

func TestImagesThatAreNotLookedUp(t *testing.T) {
	for name, c := range map[string]struct {
		able bool
		w    images.Wanted
		want images.State
	}{
		"a fallback alone":            {true, images.Wanted{Fallback: "img-f"}, images.State{ID: "img-f", Source: images.FromFallback}},
		"a provider that cannot":      {false, debian("debian-*", "img-f"), images.State{ID: "img-f", Source: images.FromFallback, Err: images.ErrNoLookup}},
		"the same without a fallback": {false, debian("debian-*", ""), images.State{Err: images.ErrNoLookup}},
	} {
		b := images.New(c.able)
		b.Configure(map[string]images.Wanted{"os": c.w}, nothing)
		if due, next := b.Due(epoch); len(due) > 0 || !next.IsZero() {
			t.Errorf("%s: due %+v, next %v", name, due, next)
		}
		if got := b.Get("os"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestDueInTheOrderOfKeys(t *testing.T) {
	b := images.New(true)
	b.Configure(map[string]images.Wanted{"c": debian("c", ""), "a": debian("a", ""), "b": debian("b", "")}, nothing)
	due, _ := b.Due(epoch)
	var keys []string
	for _, q := range due {
		keys = append(keys, q.Key)
	}
	if !slices.Equal(keys, []string{"a", "b", "c"}) {
		t.Errorf("due: %q", keys)
	}
}
