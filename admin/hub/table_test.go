package hub

import (
	"maps"
	"slices"
	"testing"
)

func TestTable(t *testing.T) {
	list := func(keys ...string) (all []listed) {
		for _, key := range keys {
			all = append(all, listed{key, 1, []byte("listed " + key)})
		}
		return all
	}
	for name, test := range map[string]struct {
		during  func(*table) // what a stream says while the list is under way
		list    []listed
		want    map[string]string
		changed []string
	}{
		"what the list has and the table has not": {func(*table) {}, list("a", "b"), map[string]string{"a": "old a", "b": "listed b"}, []string{"b"}},
		"what the table has and the list has not": {func(*table) {}, list(), map[string]string{}, []string{"a"}},
		"put while the list was made":             {func(t *table) { t.put("c", 1, []byte("new c")) }, list("a"), map[string]string{"a": "old a", "c": "new c"}, nil},
		"removed while the list was made":         {func(t *table) { t.drop("a") }, list("a"), map[string]string{}, nil},
		"removed and put again":                   {func(t *table) { t.drop("a"); t.put("a", 9, []byte("new a")) }, list("a"), map[string]string{"a": "new a"}, nil},
		"a higher revision in the list":           {func(*table) {}, []listed{{"a", 3, []byte("newer a")}}, map[string]string{"a": "newer a"}, []string{"a"}},
		"a lower revision in the list":            {func(t *table) { t.put("a", 7, []byte("newest a")) }, list("a"), map[string]string{"a": "newest a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var tab table
			tab.put("a", 2, []byte("old a"))
			began := tab.begin()
			test.during(&tab)
			changed := tab.settle(began, test.list)
			got := map[string]string{}
			for key, r := range tab.rows {
				got[key] = string(r.text)
			}
			slices.Sort(changed)
			if !maps.Equal(got, test.want) || !slices.Equal(changed, test.changed) {
				t.Errorf("rows %v, changed %v; want %v, %v", got, changed, test.want, test.changed)
			}
			if tab.gone != nil || tab.list {
				t.Error("the list is still under way")
			}
		})
	}
}

func TestATableTakesNothingThatIsOlder(t *testing.T) {
	var tab table
	for _, step := range []struct {
		revision int64
		text     string
		news     bool
	}{{2, "b", true}, {1, "a", false}, {2, "b", false}, {2, "c", true}, {3, "d", true}} {
		if got := tab.put("k", step.revision, []byte(step.text)); got != step.news {
			t.Errorf("revision %d %q is news: %v", step.revision, step.text, got)
		}
	}
}
