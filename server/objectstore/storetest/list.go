package storetest

import (
	"fmt"
	"slices"
	"testing"

	"nstance.dev/server/objectstore"
)

func listPrefix(t *testing.T, s objectstore.Store) {
	wantKeys(t, s, "")
	wantKeys(t, s, "nothing/")
	for _, key := range []string{"ca.crt", "instance/a/t.1.json", "instance/a/t.2.json", "instance/ab/t.3.json", "leader/a.json"} {
		create(t, s, key, key)
	}
	wantKeys(t, s, "", "ca.crt", "instance/a/t.1.json", "instance/a/t.2.json", "instance/ab/t.3.json", "leader/a.json")
	wantKeys(t, s, "instance/a/", "instance/a/t.1.json", "instance/a/t.2.json")
	wantKeys(t, s, "instance/a", "instance/a/t.1.json", "instance/a/t.2.json", "instance/ab/t.3.json")
	wantKeys(t, s, "instance/a/t.1", "instance/a/t.1.json")
	wantKeys(t, s, "instance/a/t.1.json", "instance/a/t.1.json")
	wantKeys(t, s, "instance/a/t.1.json/")
	wantKeys(t, s, "c", "ca.crt")
	wantKeys(t, s, "Instance")
	wantKeys(t, s, "instance/b")
}

// listOrder has keys whose order differs from that of a walk over folders.
func listOrder(t *testing.T, s objectstore.Store) {
	keys := []string{"a-b", "a.b", "a/b", "a/b-c/d", "a/b.c", "a0", "B", "a/c", "é", "a b", "a/b+/x"}
	for _, key := range keys {
		create(t, s, key, key)
	}
	slices.Sort(keys)
	wantKeys(t, s, "", keys...)
	wantKeys(t, s, "a/", "a/b", "a/b+/x", "a/b-c/d", "a/b.c", "a/c")
}

func listPages(t *testing.T, s objectstore.Store) {
	var keys []string
	for i := range 7 {
		keys = append(keys, fmt.Sprintf("p/%d.json", i))
		create(t, s, keys[i], "x")
		create(t, s, fmt.Sprintf("p%d/x", i), "x")
	}
	for _, limit := range []int{1, 2, 3, 6, 7, 8} {
		var got []string
		token := ""
		for pages := 1; ; pages++ {
			page, err := s.List(t.Context(), "p/", token, limit)
			if err != nil {
				t.Fatalf("limit %d, page %d: %v", limit, pages, err)
			}
			if len(page.Objects) > limit {
				t.Errorf("limit %d: a page of %d", limit, len(page.Objects))
			}
			for _, o := range page.Objects {
				got = append(got, o.Key)
			}
			if token = page.Next; token == "" {
				break
			}
			if pages > len(keys)+1 {
				t.Fatalf("limit %d: no end after %d pages", limit, pages)
			}
		}
		if !slices.Equal(got, keys) {
			t.Errorf("limit %d: %q, want %q", limit, got, keys)
		}
	}
}

func listMany(t *testing.T, s objectstore.Store) {
	const n = objectstore.MaxPage + 30
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("many/%02d/%d.json", i%7, i))
		create(t, s, keys[i], "x")
	}
	slices.Sort(keys)
	for _, limit := range []int{0, -1, n + 1} {
		page, err := s.List(t.Context(), "many/", "", limit)
		if err != nil || len(page.Objects) != objectstore.MaxPage || page.Next == "" {
			t.Fatalf("first page for limit %d: %d objects, next %q, %v", limit, len(page.Objects), page.Next, err)
		}
	}
	wantKeys(t, s, "many/", keys...)
	next := 0
	for range objectstore.ListAll(t.Context(), s, "many/") {
		if next++; next == 3 {
			break // the iterator stops when told
		}
	}
}

func listInfo(t *testing.T, s objectstore.Store) {
	create(t, s, "k", "four")
	o, err := s.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for info, err := range objectstore.ListAll(t.Context(), s, "") {
		want := objectstore.Info{Key: "k", ETag: o.ETag, Size: 4, Modified: info.Modified}
		if err != nil || info != want || !info.Modified.Equal(o.Modified) {
			t.Errorf("listed %+v, %v; want %+v, modified %v", info, err, want, o.Modified)
		}
	}
}

func wantKeys(t *testing.T, s objectstore.Store, prefix string, want ...string) {
	t.Helper()
	var got []string
	for info, err := range objectstore.ListAll(t.Context(), s, prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		got = append(got, info.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("list %q: %q, want %q", prefix, got, want)
	}
}
