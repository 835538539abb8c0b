package images

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/server/driver"
)

func TestImagesAreFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	d := New(dir)
	byName := func(values ...string) []driver.ImageFilter {
		return []driver.ImageFilter{{Name: "name", Values: values}}
	}
	if _, err := d.ResolveImage(t.Context(), driver.ImageQuery{Filters: byName("*")}); driver.ClassOf(err) != driver.MissingRef {
		t.Errorf("without the directory: %v, want kind %s", err, driver.MissingRef)
	}

	if err := os.MkdirAll(filepath.Join(dir, "debian-dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"debian-2", "debian-3", "debian-1", "fedora-1"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
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
		if driver.ClassOf(err) != driver.Invalid {
			t.Errorf("%s: %v, want kind invalid", name, err)
		}
	}
}
