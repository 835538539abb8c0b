package config

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
)

// sharedConfig is a shard with the default tenant and others named t1, t2, ….
func sharedConfig(t testing.TB, others int) *Config {
	t.Helper()
	var tenants []string
	open := []string{`"default"`}
	for i := range others {
		tenants = append(tenants, fmt.Sprintf(`"t%d": {}`, i+1))
		open = append(open, fmt.Sprintf(`"t%d"`, i+1))
	}
	text := fmt.Sprintf(`{
		"server": {
			"cluster_id": "c", "shard": "s", "provider": {"kind": "local", "zone": "z"},
			"secrets": {"provider": "object-storage"}, "subnet_pools": {"p": ["n"]},
		},
		"tenants": {%s},
		"templates": {"plain": {"kind": "vmx", "arch": "amd64", "instance_type": "small", "subnet_pool": "p", "userdata": {"content": "{{ .Nonce }}"}, "tenants": [%s]}},
		"groups": {"default": {"fixed": {"template": "plain", "size": 1, "args": {"a": "b"}}}},
	}`, strings.Join(tenants, ", "), strings.Join(open, ", "))
	cfg, err := Load("test.jsonc", []byte(text), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// reread checks that the next leader reads what the file says (S24).
func reread(t rapid.TB, file *GroupFile) *GroupFile {
	t.Helper()
	data, err := EncodeGroups(file)
	if err != nil {
		t.Fatalf("what was accepted can't be written: %v", err)
	}
	again, err := DecodeGroups("g", data)
	if err != nil {
		t.Fatalf("what was accepted can't be read: %v", err)
	}
	second, err := EncodeGroups(again)
	if err != nil || !bytes.Equal(data, second) {
		t.Fatalf("read again and written again it is not the same (%v):\n%s\n%s", err, data, second)
	}
	return again
}

// upsert does what a leader does for a caller.
func (f *GroupFile) upsert(cfg *Config, tenant, key string, change GroupChange) error {
	_, err := f.Attempt(tenant, cfg.GroupBytes(tenant), func() (bool, error) {
		entry, err := CheckUpsert(cfg, f, tenant, key, change)
		if err == nil {
			f.Set(tenant, key, entry)
		}
		return true, err
	})
	return err
}

func (f *GroupFile) pause(cfg *Config, tenant string, p Pause) error {
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
	cfg := sharedConfig(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		file := &GroupFile{}
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			before, _ := EncodeGroups(file)
			tenant := rapid.SampledFrom([]string{"default", "t1", "t2"}).Draw(t, "tenant")
			key := rapid.SampledFrom([]string{"a", "b", "fixed"}).Draw(t, "key")
			var err error
			if rapid.IntRange(0, 3).Draw(t, "call") == 0 {
				p := Pause{Scope: PauseTenant, Reason: hostileText().Draw(t, "reason")}
				if rapid.Bool().Draw(t, "ends") {
					p.Until = &Time{time.Unix(rapid.Int64Range(1, 1<<40).Draw(t, "until"), 0)}
				}
				err = file.pause(cfg, tenant, p)
			} else {
				change := GroupChange{Template: "plain", Manager: rapid.OneOf(rapid.Just(""), hostileText()).Draw(t, "manager")}
				if rapid.Bool().Draw(t, "with vars") {
					change.Vars = rapid.MapOfN(hostileText(), hostileText(), 0, 2).Draw(t, "vars")
				}
				if rapid.Bool().Draw(t, "with args") {
					change.Args = rapid.MapOfN(rapid.OneOf(rapid.Just("k"), hostileText()), hostileValue(), 0, 2).Draw(t, "args")
				}
				if rapid.Bool().Draw(t, "with types") {
					change.InstanceTypes = rapid.SliceOfN(hostileText(), 0, 3).Draw(t, "types")
				}
				err = file.upsert(cfg, tenant, key, change)
			}
			after, _ := EncodeGroups(file)
			if err != nil && !bytes.Equal(before, after) {
				t.Fatalf("refused (%v), and the file has changed:\n%s\n%s", err, before, after)
			}
			reread(t, file)
		}
	})
}

// TestS24_AllTenantsAtTheirQuotas: each tenant fills what it may fill, with groups
// and with pauses, and the file can still be read, by a leader with a longer term and
// a configuration that has one static group less.
func TestS24_AllTenantsAtTheirQuotas(t *testing.T) {
	for _, others := range []int{0, 2, 40} {
		t.Run(fmt.Sprintf("%d tenants", others+1), func(t *testing.T) {
			cfg := sharedConfig(t, others)
			file := &GroupFile{Static: StaticCopy(cfg)}
			var quota *QuotaError
			for i := range others + 1 {
				tenant := DefaultTenant
				if i > 0 {
					tenant = fmt.Sprintf("t%d", i)
				}
				var err error
				for n, size := 0, 200<<10; err == nil || size > 4096; n++ {
					change := GroupChange{Template: "plain", Vars: map[string]string{"v": strings.Repeat("<", size/6)}} // 6 bytes each in JSON
					if err = file.upsert(cfg, tenant, fmt.Sprintf("g%d", n), change); err != nil {
						size /= 2 // the last gaps, too
					}
					if n == 0 {
						p := Pause{Scope: PauseTenant, Reason: strings.Repeat("<", maxPauseReason)}
						if err := file.pause(cfg, tenant, p); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !errors.As(err, &quota) {
					t.Fatalf("refused with %v, want a quota", err)
				}
			}
			file.Term = math.MaxInt64
			data, err := EncodeGroups(file)
			if err != nil {
				t.Fatal(err)
			}
			most := (others + 1) * cfg.GroupBytes(DefaultTenant)
			if n := len(data); n > MaxGroupFileBytes || n < most*9/10 {
				t.Errorf("%d bytes, want nearly the %d of all quotas", n, most)
			}
			reread(t, file)
		})
	}
}

// TestS24_EditsBeyondTheQuota: what is above the quota stays, and may shrink.
func TestS24_EditsBeyondTheQuota(t *testing.T) {
	cfg := sharedConfig(t, 1)
	file, large := &GroupFile{}, map[string]string{"v": strings.Repeat("x", 250<<10)}
	for i := range 8 { // by a server without quotas
		file.Set("t1", fmt.Sprintf("g%d", i), DynamicGroup{Template: "plain", Vars: large, Size: size(1)})
	}
	var quota *QuotaError
	if err := file.upsert(cfg, "t1", "more", GroupChange{Template: "plain"}); !errors.As(err, &quota) || quota.Field != "bytes" {
		t.Errorf("one more group: %v, want a quota of bytes", err)
	}
	if _, there := file.Group("t1", "more"); there {
		t.Error("the refused group is in the file")
	}
	if err := file.upsert(cfg, "t1", "g0", GroupChange{Size: size(0)}); err != nil {
		t.Errorf("a change of the size: %v", err)
	}
	if err := file.upsert(cfg, "t1", "g0", GroupChange{Vars: map[string]string{}}); err != nil {
		t.Errorf("less text: %v", err)
	}
	if err := file.upsert(cfg, "default", "web", GroupChange{Template: "plain"}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

func FuzzAcceptedIsReadable(f *testing.F) {
	f.Add("uid", "name", `{"a": [1, "x"]}`, "var", "value", "why", int64(4_000_000_000))
	f.Add("a\x00b", "a\x00", "\"\\u0000\"", "a\x00", "a\x00b", "a\x00b", int64(1)<<40)
	f.Add("", "a", strings.Repeat("[", 80)+strings.Repeat("]", 80), "", "", "\n", int64(0))
	cfg := sharedConfig(f, 1)
	f.Fuzz(func(t *testing.T, manager, arg, value, name, text, reason string, until int64) {
		file := &GroupFile{}
		file.Set("t1", "web", DynamicGroup{Template: "plain"})
		var parsed any = value
		if json.Unmarshal([]byte(value), &parsed) != nil {
			parsed = value
		}
		_ = file.upsert(cfg, "default", "web", GroupChange{
			Template: "plain", Manager: manager, Args: map[string]any{arg: parsed}, Vars: map[string]string{name: text},
		})
		_ = file.upsert(cfg, "default", "fixed", GroupChange{Manager: manager, Vars: map[string]string{name: text}})
		_ = file.pause(cfg, "default", Pause{Scope: PauseTenant, Reason: reason, Until: &Time{time.Unix(until%(1<<41), 0)}})
		again := reread(t, file)
		if _, ok := again.Group("t1", "web"); !ok {
			t.Error("another tenant's group is gone")
		}
	})
}
