package groupfile_test

import (
	"testing"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

func TestPauseOf(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(d time.Duration) *document.Time { return &document.Time{Time: now.Add(d)} }
	var file groupfile.File
	file.SetPause(groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: "a", Group: "web", Reason: "group"}, now)
	file.SetPause(groupfile.Pause{Scope: groupfile.PauseTenant, Tenant: "a", Reason: "tenant", Until: at(time.Minute)}, now)
	file.SetPause(groupfile.Pause{Scope: groupfile.PauseShard, Reason: "shard", Until: at(time.Second)}, now)
	for _, test := range []struct {
		tenant, group string
		after         time.Duration
		want          string
	}{
		{"a", "web", 0, "shard"},
		{"b", "web", 0, "shard"},
		{"b", "web", time.Second, ""},
		{"a", "web", time.Second, "tenant"},
		{"a", "db", time.Second, "tenant"},
		{"a", "web", time.Minute, "group"},
		{"a", "db", time.Minute, ""},
	} {
		got, ok := file.PauseOf(test.tenant, test.group, now.Add(test.after))
		if got.Reason != test.want || ok != (test.want != "") {
			t.Errorf("%s/%s after %v: pause %q, want %q", test.tenant, test.group, test.after, got.Reason, test.want)
		}
	}
}

func TestPausesAreReplacedClearedAndForgotten(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	web := groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: "a", Group: "web"}
	short := groupfile.Pause{Scope: groupfile.PauseTenant, Tenant: "b", Until: &document.Time{Time: now.Add(time.Minute)}}
	var file groupfile.File
	file.SetPause(web, now)
	file.SetPause(short, now)
	web.Reason = "another"
	shared := file.Clone()
	file.SetPause(web, now)
	if len(file.Paused) != 2 || file.Paused[1].Reason != "another" {
		t.Errorf("after a repeat: %+v", file.Paused)
	}
	if shared.Paused[0].Reason != "" {
		t.Error("a change shows in a copy made before it")
	}
	if file.ClearPause(groupfile.Pause{Scope: groupfile.PauseGroup, Tenant: "b", Group: "web"}, now) {
		t.Error("another tenant's pause of the same name was found")
	}
	if !file.ClearPause(web, now.Add(time.Hour)) || len(file.Paused) != 0 {
		t.Errorf("cleared, with one that is over: %+v", file.Paused)
	}
}
