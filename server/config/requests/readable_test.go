package requests_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nstance.dev/server/config/configtest"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/requests"
)

// upsert does what a leader does for a caller.
func upsert(f *groupfile.File, cfg *effective.Config, tenant, key string, change requests.GroupChange) error {
	_, err := f.Attempt(tenant, cfg.GroupBytes(tenant), func() (bool, error) {
		entry, err := requests.CheckUpsert(cfg, f, tenant, key, change)
		if err == nil {
			f.Set(tenant, key, entry)
		}
		return true, err
	})
	return err
}

func pause(f *groupfile.File, cfg *effective.Config, tenant string, p groupfile.Pause) error {
	if err := p.Check(); err != nil {
		return err
	}
	p.Tenant = tenant
	_, err := f.Attempt(tenant, cfg.GroupBytes(tenant), func() (bool, error) {
		f.SetPause(p, time.Unix(0, 0))
		return true, nil
	})
	return err
}

// hostileText draws texts with what documents do not like in them.
func hostileText() *rapid.Generator[string] {
	bad := rapid.SampledFrom([]string{"", "\x00", "\n", "\u2028", "\xff", "\"", "\\u0000", "</script>", "\ufeff", strings.Repeat("x", 300)})
	return rapid.Custom(func(t *rapid.T) string {
		return rapid.StringN(0, 8, -1).Draw(t, "text") + bad.Draw(t, "bad")
	})
}

// hostileValue draws values as JSON gives them, some of them deep.
func hostileValue() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		v := rapid.OneOf(
			rapid.Map(hostileText(), func(s string) any { return s }),
			rapid.Map(rapid.Float64(), func(f float64) any { return f }),
			rapid.SampledFrom([]any{nil, true, json.Number("1e999"), json.Number("01"), math.Inf(1)}),
		).Draw(t, "value")
		for range rapid.SampledFrom([]int{0, 1, 2, 31, 32, 33, 70}).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "list") {
				v = []any{v}
			} else {
				v = map[string]any{rapid.OneOf(rapid.Just("k"), hostileText()).Draw(t, "name"): v}
			}
		}
		return v
	})
}

// TestS24_WhatIsAcceptedIsRead: whatever a sequence of calls is accepted, the reader
// of the group file reads it, and what is refused leaves no trace.
func TestS24_WhatIsAcceptedIsRead(t *testing.T) {
	cfg := configtest.SharedConfig(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		file := &groupfile.File{}
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			before, _ := groupfile.Encode(file)
			tenant := rapid.SampledFrom([]string{"default", "t1", "t2"}).Draw(t, "tenant")
			key := rapid.SampledFrom([]string{"a", "b", "fixed"}).Draw(t, "key")
			var err error
			if rapid.IntRange(0, 3).Draw(t, "call") == 0 {
				p := groupfile.Pause{Scope: groupfile.PauseTenant, Reason: hostileText().Draw(t, "reason")}
				if rapid.Bool().Draw(t, "ends") {
					p.Until = &document.Time{Time: time.Unix(rapid.Int64Range(1, 1<<40).Draw(t, "until"), 0)}
				}
				err = pause(file, cfg, tenant, p)
			} else {
				change := requests.GroupChange{Template: "plain", Manager: rapid.OneOf(rapid.Just(""), hostileText()).Draw(t, "manager")}
				if rapid.Bool().Draw(t, "with vars") {
					change.Vars = rapid.MapOfN(hostileText(), hostileText(), 0, 2).Draw(t, "vars")
				}
				if rapid.Bool().Draw(t, "with args") {
					change.Args = rapid.MapOfN(rapid.OneOf(rapid.Just("k"), hostileText()), hostileValue(), 0, 2).Draw(t, "args")
				}
				if rapid.Bool().Draw(t, "with types") {
					change.InstanceTypes = rapid.SliceOfN(hostileText(), 0, 3).Draw(t, "types")
				}
				err = upsert(file, cfg, tenant, key, change)
			}
			after, _ := groupfile.Encode(file)
			if err != nil && !bytes.Equal(before, after) {
				t.Fatalf("refused (%v), and the file has changed:\n%s\n%s", err, before, after)
			}
			configtest.Reread(t, file)
		}
	})
}

// TestS24_EditsBeyondTheQuota: what is above the quota stays, and may shrink.
func TestS24_EditsBeyondTheQuota(t *testing.T) {
	cfg := configtest.SharedConfig(t, 1)
	file, large := &groupfile.File{}, map[string]string{"v": strings.Repeat("x", 250<<10)}
	for i := range 8 { // by a server without quotas
		file.Set("t1", fmt.Sprintf("g%d", i), groupfile.Entry{Template: "plain", Vars: large, Size: configtest.Size(1)})
	}
	var quota *groupfile.QuotaError
	if err := upsert(file, cfg, "t1", "more", requests.GroupChange{Template: "plain"}); !errors.As(err, &quota) || quota.Field != "bytes" {
		t.Errorf("one more group: %v, want a quota of bytes", err)
	}
	if _, there := file.Group("t1", "more"); there {
		t.Error("the refused group is in the file")
	}
	if err := upsert(file, cfg, "t1", "g0", requests.GroupChange{Size: configtest.Size(0)}); err != nil {
		t.Errorf("a change of the size: %v", err)
	}
	if err := upsert(file, cfg, "t1", "g0", requests.GroupChange{Vars: map[string]string{}}); err != nil {
		t.Errorf("less text: %v", err)
	}
	if err := upsert(file, cfg, "default", "web", requests.GroupChange{Template: "plain"}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

func FuzzAcceptedIsReadable(f *testing.F) {
	f.Add("uid", "name", `{"a": [1, "x"]}`, "var", "value", "why", int64(4_000_000_000))
	f.Add("a\x00b", "a\x00", "\"\\u0000\"", "a\x00", "a\x00b", "a\x00b", int64(1)<<40)
	f.Add("", "a", strings.Repeat("[", 80)+strings.Repeat("]", 80), "", "", "\n", int64(0))
	cfg := configtest.SharedConfig(f, 1)
	f.Fuzz(func(t *testing.T, manager, arg, value, name, text, reason string, until int64) {
		file := &groupfile.File{}
		file.Set("t1", "web", groupfile.Entry{Template: "plain"})
		var parsed any = value
		if json.Unmarshal([]byte(value), &parsed) != nil {
			parsed = value
		}
		_ = upsert(file, cfg, "default", "web", requests.GroupChange{
			Template: "plain", Manager: manager, Args: map[string]any{arg: parsed}, Vars: map[string]string{name: text},
		})
		_ = upsert(file, cfg, "default", "fixed", requests.GroupChange{Manager: manager, Vars: map[string]string{name: text}})
		_ = pause(file, cfg, "default", groupfile.Pause{Scope: groupfile.PauseTenant, Reason: reason, Until: &document.Time{Time: time.Unix(until%(1<<41), 0)}})
		again := configtest.Reread(t, file)
		if _, ok := again.Group("t1", "web"); !ok {
			t.Error("another tenant's group is gone")
		}
	})
}
