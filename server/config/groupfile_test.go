package config

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"time"
)

func TestGroupFile_roundTrip(t *testing.T) {
	drain := Duration(0)
	file := &GroupFile{
		V: 1, Term: 7,
		Groups: map[string]map[string]*DynamicGroup{"default": {"web": {
			Template: "wrk", Size: size(0), InstanceTypes: []string{"a", "b"}, SubnetPool: "p", Vars: Vars{"a": "1"},
			Args: map[string]any{"A": []any{true, "x"}}, LoadBalancers: []string{"www"}, DrainTimeout: &drain,
			Retired:   []Retired{{ID: "web068a3cp3thz5z2mv1gejwftabc", At: Time{time.UnixMilli(1_700_000_000_123)}}},
			DeletedAt: &Time{time.UnixMilli(1_700_000_000_000)}, Manager: "uid",
		}}},
		Paused: []Pause{{Scope: PauseGroup, Tenant: "default", Group: "web", Reason: "why", Until: &Time{time.UnixMilli(1_700_000_000_000)}}},
		Static: map[string]map[string]StaticGroup{"default": {"apps": {Group: Group{Template: "wrk", Size: size(2)}}}},
	}
	data, err := EncodeGroups(file)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "groups.jsonc", data)
	got, err := DecodeGroups("g", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file, got, cmpopts.IgnoreUnexported(GroupFile{}, DynamicGroup{}, Pause{}, StaticGroup{})); diff != "" {
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
	file, err := DecodeGroups("g", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := file.Group("default", "web")
	entry.Size = size(3)
	clone := file.Clone()
	clone.Set("default", "web", entry)
	got, err := EncodeGroups(clone)
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
		"empty":            {"", ErrUnreadable},
		"truncated":        {`{"v": 1, "groups": {"default": {"web"`, ErrUnreadable},
		"not JSON":         {"<html>", ErrUnreadable},
		"not an object":    {`[]`, ErrUnreadable},
		"null":             {`null`, ErrUnreadable},
		"no version":       {`{"groups": {}}`, ErrUnreadable},
		"version 0":        {`{"v": 0, "groups": {}}`, ErrUnreadable},
		"wrong type":       {`{"v": 1, "groups": {"default": {"web": {"size": "3"}}}}`, ErrUnreadable},
		"null entry":       {`{"v": 1, "groups": {"default": {"web": null}}}`, ErrUnreadable},
		"object as var":    {`{"v": 1, "groups": {"default": {"web": {"vars": {"a": {}}}}}}`, ErrUnreadable},
		"duplicate key":    {`{"v": 1, "groups": {}, "groups": {}}`, ErrUnreadable},
		"negative term":    {`{"v": 1, "term": -1}`, ErrUnreadable},
		"newer":            {`{"v": 2, "groups": "something else"}`, ErrNewer},
		"comments, commas": {"// by hand\n{\"v\": 1, \"groups\": {},}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := DecodeGroups("g", []byte(c.text))
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Errorf("DecodeGroups = %v, want %v", err, c.want)
			}
			if (file == nil) != (c.want != nil) {
				t.Errorf("file = %v", file)
			}
		})
	}
}

func TestGroupFile_cloneIsSeparate(t *testing.T) {
	file := fileWith("default", "web", DynamicGroup{Size: size(1)})
	clone := file.Clone()
	clone.Set("default", "web", DynamicGroup{Size: size(2)})
	clone.Set("default", "new", DynamicGroup{})
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
	file := fileWith("default", "a", DynamicGroup{Size: size(1)})
	file.Set("default", "b", DynamicGroup{Size: size(2)})
	file.Set("other", "c", DynamicGroup{Size: size(3)})
	if _, err := EncodeGroups(file); err != nil {
		t.Fatal(err)
	}
	clone := file.Clone()
	clone.Set("default", "a", DynamicGroup{Size: size(4)})
	clone.Set("default", "aa", DynamicGroup{Size: size(5)})
	clone.Remove("other", "c")
	if diff := cmp.Diff([]GroupKey{{"default", "a"}, {"default", "aa"}, {"other", "c"}}, clone.Changed(), cmpopts.SortSlices(func(a, b GroupKey) bool {
		return a.Tenant+a.Group < b.Tenant+b.Group
	})); diff != "" {
		t.Error(diff)
	}
	for _, f := range []*GroupFile{file, clone} {
		got, err := EncodeGroups(f)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := indented(f, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(whole)+"\n", string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func FuzzGroupFile(f *testing.F) {
	f.Add(readFile(f, "groups.jsonc"))
	f.Add([]byte(`{"v":1,"groups":{"default":{"web":{"vars":{"a":1},"x":{}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := DecodeGroups("g", data)
		if err != nil {
			if !errors.Is(err, ErrNewer) && !errors.Is(err, ErrUnreadable) {
				t.Errorf("neither newer nor unreadable: %v", err)
			}
			return
		}
		once, err := EncodeGroups(file)
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := indented(file, ""); err != nil || string(whole)+"\n" != string(once) {
			t.Errorf("put together from its entries: %v\n%s\nat once:\n%s", err, once, whole)
		}
		again, err := DecodeGroups("g", once)
		if err != nil {
			t.Fatalf("own output is refused: %v\n%s", err, once)
		}
		twice, err := EncodeGroups(again)
		if err != nil || string(once) != string(twice) {
			t.Errorf("encoding is not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}
