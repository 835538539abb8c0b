package local

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"nstance.dev/server/driver"
)

func TestImagesAreFiles(t *testing.T) {
	d := empty(t)
	byName := func(values ...string) []driver.ImageFilter {
		return []driver.ImageFilter{{Name: "name", Values: values}}
	}
	wantKind(t, second(d.ResolveImage(t.Context(), driver.ImageQuery{Filters: byName("*")})), driver.MissingRef)

	dir := filepath.Join(d.opts.Dir, imagesDir)
	must(t, os.MkdirAll(filepath.Join(dir, "debian-dir"), 0o700))
	for i, name := range []string{"debian-2", "debian-3", "debian-1", "fedora-1"} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, time.Time{}, time.Unix(int64(1000+i), 0)))
	}
	for name, c := range map[string]struct {
		query driver.ImageQuery
		want  string
	}{
		"the newest":           {driver.ImageQuery{Filters: byName("debian-*"), Descending: true}, "debian-1"},
		"the oldest":           {driver.ImageQuery{Filters: byName("debian-*")}, "debian-2"},
		"the last name":        {driver.ImageQuery{Filters: byName("debian-*"), ByName: true, Descending: true}, "debian-3"},
		"one of two patterns":  {driver.ImageQuery{Filters: byName("fedora-*", "suse-*")}, "fedora-1"},
		"without any filter":   {driver.ImageQuery{Descending: true}, "fedora-1"},
		"by the first of name": {driver.ImageQuery{ByName: true}, "debian-1"},
	} {
		got, err := d.ResolveImage(t.Context(), c.query)
		if err != nil || got != filepath.Join(dir, c.want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	for name, query := range map[string]driver.ImageQuery{
		"an owner":         {Owners: []string{"me"}},
		"a foreign filter": {Filters: []driver.ImageFilter{{Name: "tag:os", Values: []string{"debian"}}}},
		"a bad pattern":    {Filters: byName("[")},
	} {
		_, err := d.ResolveImage(t.Context(), query)
		if driver.KindOf(err) != driver.Invalid {
			t.Errorf("%s: %v, want kind invalid", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestF25_RoomIsKeptByCreatesAtOnce lets more creates race for a subnet than it
// has room for.
func TestF25_RoomIsKeptByCreatesAtOnce(t *testing.T) {
	d := empty(t)
	d.opts.Room = map[string]int{"narrow": 3}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		req := request(t)
		req.SubnetID = "narrow"
		wg.Go(func() { _, errs[i] = d.Create(t.Context(), req) })
	}
	wg.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			wantKind(t, err, driver.Capacity)
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d of 8 creates were refused in a subnet with room for 3", refused)
	}
	wide := request(t)
	wide.SubnetID = "wide"
	_, err := d.Create(t.Context(), wide)
	must(t, err)
}

func TestBalancerThatNobodyMade(t *testing.T) {
	d := empty(t)
	req, _ := running(t, d)
	for _, key := range []string{"www", "../escape", ""} {
		err := d.LBRegister(t.Context(), driver.LoadBalancer{Key: key}, driver.Ref{InstanceID: req.InstanceID})
		want := driver.Invalid
		if key == "www" {
			want = driver.MissingRef
		}
		wantKind(t, err, want)
	}
}
