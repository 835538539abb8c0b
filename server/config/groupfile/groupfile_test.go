package groupfile_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

func TestGroupFile_roundTrip(t *testing.T) {
	drain := document.Duration(0)
	file := &groupfile.File{
		V: 1, Term: 7,
		Groups: map[string]map[string]*groupfile.Entry{"default": {"web": {
			Template: "wrk", Size: configtest.Size(0), InstanceTypes: []string{"a", "b"}, SubnetPool: "p", Vars: document.Vars{"a": "1"},
			Args: map[string]any{"A": []any{true, "x"}}, LoadBalancers: []string{"www"}, DrainTimeout: &drain,
			Retired:   []groupfile.Retired{{ID: "web068a3cp3thz5z2mv1gejwftabc", At: document.Time{Time: time.UnixMilli(1_700_000_000_123)}}},
			DeletedAt: &document.Time{Time: time.UnixMilli(1_700_000_000_000)}, Manager: "uid",
		}}},
		Paused: []groupfile.Pause{{Scope: groupfile.PauseGroup, Tenant: "default", Group: "web", Reason: "why", Until: &document.Time{Time: time.UnixMilli(1_700_000_000_000)}}},
		Static: map[string]map[string]groupfile.StaticGroup{"default": {"apps": {Group: document.Group{Template: "wrk", Size: configtest.Size(2)}}}},
	}
	data, err := groupfile.Encode(file)
	if err != nil {
		t.Fatal(err)
	}
	configtest.Golden(t, "testdata/groups.jsonc", data)
	got, err := groupfile.Decode("g", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file, got, cmpopts.IgnoreUnexported(groupfile.File{}, groupfile.Entry{}, groupfile.Pause{}, groupfile.StaticGroup{})); diff != "" {
		t.Error(diff)
	}
}

func TestGroupFile_unknownFieldsArePreserved(t *testing.T) {
	const text = `{
  "future": {
    "n": 1.50
  },
  "groups": {
    "default": {
      "web": {
        "budget": [
          1
        ],
        "size": 3,
        "template": "wrk"
      }
    }
  },
  "paused": [
    {
      "by": "me",
      "scope": "shard"
    }
  ],
  "static": {
    "default": {
      "web": {
        "colour": "red",
        "template": "wrk"
      }
    }
  },
  "term": 2,
  "v": 1
}
`
	file, err := groupfile.Decode("g", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := file.Group("default", "web")
	entry.Size = configtest.Size(3)
	clone := file.Clone()
	clone.Set("default", "web", entry)
	got, err := groupfile.Encode(clone)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestF10_aFileThatCannotBeReadIsNotEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":            {"", groupfile.ErrUnreadable},
		"truncated":        {`{"v": 1, "groups": {"default": {"web"`, groupfile.ErrUnreadable},
		"not JSON":         {"<html>", groupfile.ErrUnreadable},
		"not an object":    {`[]`, groupfile.ErrUnreadable},
		"null":             {`null`, groupfile.ErrUnreadable},
		"no version":       {`{"groups": {}}`, groupfile.ErrUnreadable},
		"version 0":        {`{"v": 0, "groups": {}}`, groupfile.ErrUnreadable},
		"wrong type":       {`{"v": 1, "groups": {"default": {"web": {"size": "3"}}}}`, groupfile.ErrUnreadable},
		"null entry":       {`{"v": 1, "groups": {"default": {"web": null}}}`, groupfile.ErrUnreadable},
		"object as var":    {`{"v": 1, "groups": {"default": {"web": {"vars": {"a": {}}}}}}`, groupfile.ErrUnreadable},
		"duplicate key":    {`{"v": 1, "groups": {}, "groups": {}}`, groupfile.ErrUnreadable},
		"negative term":    {`{"v": 1, "term": -1}`, groupfile.ErrUnreadable},
		"newer":            {`{"v": 2, "groups": "something else"}`, groupfile.ErrNewer},
		"comments, commas": {"// by hand\n{\"v\": 1, \"groups\": {},}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := groupfile.Decode("g", []byte(c.text))
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Errorf("Decode = %v, want %v", err, c.want)
			}
			if (file == nil) != (c.want != nil) {
				t.Errorf("file = %v", file)
			}
		})
	}
}

func TestGroupFile_cloneIsSeparate(t *testing.T) {
	file := configtest.FileWith("default", "web", groupfile.Entry{Size: configtest.Size(1)})
	clone := file.Clone()
	clone.Set("default", "web", groupfile.Entry{Size: configtest.Size(2)})
	clone.Set("default", "new", groupfile.Entry{})
	clone.Remove("default", "new")
	if g, _ := file.Group("default", "web"); *g.Size != 1 || len(file.Groups["default"]) != 1 {
		t.Errorf("the original changed: %+v", file.Groups)
	}
	clone.Remove("default", "web")
	if len(clone.Groups) != 0 {
		t.Errorf("groups = %v", clone.Groups)
	}
}

// The texts of entries that are kept must not outlive the entries.
func TestGroupFile_changedEntriesAreEncodedAnew(t *testing.T) {
	file := configtest.FileWith("default", "a", groupfile.Entry{Size: configtest.Size(1)})
	file.Set("default", "b", groupfile.Entry{Size: configtest.Size(2)})
	file.Set("other", "c", groupfile.Entry{Size: configtest.Size(3)})
	if _, err := groupfile.Encode(file); err != nil {
		t.Fatal(err)
	}
	clone := file.Clone()
	clone.Set("default", "a", groupfile.Entry{Size: configtest.Size(4)})
	clone.Set("default", "aa", groupfile.Entry{Size: configtest.Size(5)})
	clone.Remove("other", "c")
	if diff := cmp.Diff([]document.GroupKey{{Tenant: "default", Group: "a"}, {Tenant: "default", Group: "aa"}, {Tenant: "other", Group: "c"}}, clone.Changed(), cmpopts.SortSlices(func(a, b document.GroupKey) bool {
		return a.Tenant+a.Group < b.Tenant+b.Group
	})); diff != "" {
		t.Error(diff)
	}
	for _, f := range []*groupfile.File{file, clone} {
		got, err := groupfile.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := groupfile.Indented(f, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(whole)+"\n", string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func FuzzGroupFile(f *testing.F) {
	golden, err := os.ReadFile("testdata/groups.jsonc")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(`{"v":1,"groups":{"default":{"web":{"vars":{"a":1},"x":{}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := groupfile.Decode("g", data)
		if err != nil {
			if !errors.Is(err, groupfile.ErrNewer) && !errors.Is(err, groupfile.ErrUnreadable) {
				t.Errorf("neither newer nor unreadable: %v", err)
			}
			return
		}
		once, err := groupfile.Encode(file)
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := groupfile.Indented(file, ""); err != nil || string(whole)+"\n" != string(once) {
			t.Errorf("put together from its entries: %v\n%s\nat once:\n%s", err, once, whole)
		}
		again, err := groupfile.Decode("g", once)
		if err != nil {
			t.Fatalf("own output is refused: %v\n%s", err, once)
		}
		twice, err := groupfile.Encode(again)
		if err != nil || string(once) != string(twice) {
			t.Errorf("encoding is not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}
