package operation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/paver/journal"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// host is one whose machine runs in slot a.
func host() View {
	return View{
		Now: now, HostBootID: "host-1", Machine: "m1", Slot: journal.A, Phase: journal.Running, BootID: "boot-1",
		Unit: Unit{Exists: true, Active: "active", Result: "success", Invocation: "inv-1"},
	}
}

func asked(name string, parameters ...string) Record {
	r := Record{ID: "op", Name: name, State: Accepted, Taken: now, Deadline: now.Add(2 * time.Minute)}
	for i := 0; i+1 < len(parameters); i += 2 {
		if r.Parameters == nil {
			r.Parameters = map[string]string{}
		}
		r.Parameters[parameters[i]] = parameters[i+1]
	}
	return r
}

func restartsKubelet() Record { return asked(RestartService, "service", "kubelet") }

// begun is an operation that began on [host], and was asked for so often.
func begun(r Record, times int) Record {
	r = r.Begin(Marks{HostBootID: "host-1", Slot: journal.A, BootID: "boot-1", Invocation: "inv-1"}, now)
	for range times {
		r = r.Send(now)
	}
	return r
}

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func setsKeys() Record {
	return asked(ApplyConfiguration, "sshKeys.b.0", aKey+" b", "sshKeys.a.10", aKey+" 10", "sshKeys.a.2", aKey+" 2\n"+aKey+" 2b")
}

func collects() Record {
	r := asked(CollectLogs, "since", "2h", "units", "kubelet,ssh.service")
	r.TakesLogs = true
	return r
}

func changed(change func(*View)) View {
	v := host()
	change(&v)
	return v
}

func cancelled(r Record) Record { r.Cancelled = true; return r }

// TestM75M79M86_WhatComesNext: what follows for an operation, by its record and what is seen.
func TestM75M79M86_WhatComesNext(t *testing.T) {
	restarted := changed(func(v *View) { v.Unit.Invocation = "inv-2" })
	for _, c := range []struct {
		name   string
		record Record
		view   View
		want   Kind
		reason string // of an end
		alone  bool
	}{
		{"a service is restarted", restartsKubelet(), host(), Begin, "", false},
		{"the policy does not allow it", restartsKubelet(), changed(func(v *View) { v.Refused = "no" }), End, ReasonRefusedByHost, false},
		{"the policy is asked before the parameters are", asked(RestartService), changed(func(v *View) { v.Refused = "no" }), End, ReasonRefusedByHost, false},
		{"a parameter is missing", asked(RestartService), host(), End, ReasonInvalidParameters, false},
		{"a parameter is unknown", asked(RestartMachine, "x", "y"), host(), End, ReasonInvalidParameters, false},
		{"an option in place of a unit", asked(RestartService, "service", "--system"), host(), End, ReasonInvalidParameters, false},
		{"an unknown name", asked("explode"), host(), End, ReasonUnsupported, false},
		{"the host cannot", asked(Reboot), changed(func(v *View) { v.Unsupported = "no systemd" }), End, ReasonUnsupported, false},
		{"past its deadline", restartsKubelet(), changed(func(v *View) { v.Now = now.Add(2 * time.Minute) }), End, ReasonTimeout, false},
		{"cancelled before it began", cancelled(restartsKubelet()), host(), End, ReasonCancelled, false},
		{"another machine is built", restartsKubelet(), changed(func(v *View) { v.Busy = "epoch 2 is in stage boot" }), Wait, "", false},
		{"a reset does not wait for that", asked(ResetHost, "confirm", "m1"), changed(func(v *View) { v.Busy = "epoch 2 is in stage boot" }), Begin, "", false},
		{"no such unit", restartsKubelet(), changed(func(v *View) { v.Unit = Unit{} }), End, ReasonNotFound, false},
		{"the machine does not run yet", restartsKubelet(), changed(func(v *View) { v.Phase = journal.Absent }), Wait, "", false},
		{"there is no machine", restartsKubelet(), changed(func(v *View) { v.Slot = journal.None }), End, ReasonNotFound, false},
		{"a service of the host needs none", asked(RestartService, "service", "sshd", "scope", "host"), changed(func(v *View) { v.Slot = journal.None }), Begin, "", false},
		{"it begins to be restarted", begun(restartsKubelet(), 0), host(), RestartUnit, "", false},
		{"it was told to, by this process", begun(restartsKubelet(), 1), changed(func(v *View) { v.Sent = true }), Wait, "", false},
		{"whether a process that was killed has told it is not known", begun(restartsKubelet(), 1), host(), RestartUnit, "", false},
		{"it does not restart", begun(restartsKubelet(), 1), changed(func(v *View) { v.Sent = true; v.Now = now.Add(unitAgain) }), RestartUnit, "", false},
		{"another invocation is the proof", begun(restartsKubelet(), 1), restarted, End, "", false},
		{"also after a crash, and nothing is told twice", begun(restartsKubelet(), 3), restarted, End, "", false},
		{"and not before it was told", begun(restartsKubelet(), 0), restarted, RestartUnit, "", false},
		{"it starts", begun(restartsKubelet(), 1), changed(func(v *View) { v.Unit.Invocation, v.Unit.Active, v.Sent = "inv-2", "activating", true }), Wait, "", false},
		{"it starts, and takes its time", begun(restartsKubelet(), 1), changed(func(v *View) {
			v.Unit.Invocation, v.Unit.Active, v.Sent, v.Now = "inv-2", "activating", true, now.Add(unitAgain)
		}), Wait, "", false},
		{"it starts, and another process has told it to", begun(restartsKubelet(), 1), changed(func(v *View) { v.Unit.Invocation, v.Unit.Active = "inv-2", "activating" }), Wait, "", false},
		{"it stops, and takes its time", begun(restartsKubelet(), 1), changed(func(v *View) { v.Unit.Active, v.Sent, v.Now = "deactivating", true, now.Add(unitAgain) }), Wait, "", false},
		{"it failed", begun(restartsKubelet(), 1), changed(func(v *View) { v.Unit.Invocation, v.Unit.Active = "inv-2", "failed" }), End, ReasonUnitFailed, false},
		{"a program that ends is through", begun(restartsKubelet(), 1), changed(func(v *View) {
			v.Unit = Unit{Exists: true, Active: "inactive", Result: "success", Oneshot: true, Invocation: "inv-2"}
		}), End, "", false},
		{"what is proved counts at the deadline too", begun(restartsKubelet(), 1), changed(func(v *View) { v.Now, v.Unit.Invocation = now.Add(time.Hour), "inv-2" }), End, "", false},
		{"not done by its deadline", begun(restartsKubelet(), 1), changed(func(v *View) { v.Now = now.Add(2 * time.Minute) }), End, ReasonTimeout, false},
		{"a step failed a moment ago", begun(restartsKubelet(), 1), changed(func(v *View) { v.Retry = now.Add(time.Second) }), Wait, "", false},
		{"cancelled, and nothing was sent", cancelled(begun(restartsKubelet(), 0)), host(), End, ReasonCancelled, false},
		{"cancelled too late", cancelled(begun(restartsKubelet(), 1)), changed(func(v *View) { v.Sent = true }), Wait, "", false},

		{"the machine is restarted", asked(RestartMachine), host(), Begin, "", false},
		{"one that starts is waited for", asked(RestartMachine), changed(func(v *View) { v.BootID = "" }), Wait, "", false},
		{"it runs as it did", begun(asked(RestartMachine), 0), host(), StopMachine, "", false},
		{"it is down, and starts by itself", begun(asked(RestartMachine), 1), changed(func(v *View) { v.Phase, v.BootID = journal.Absent, "" }), Wait, "", false},
		{"another boot, and the kubelet is starting", begun(asked(RestartMachine), 1), changed(func(v *View) { v.BootID, v.Unit.Active = "boot-2", "activating" }), Wait, "", false},
		{"another boot is the proof", begun(asked(RestartMachine), 1), changed(func(v *View) { v.BootID = "boot-2" }), End, "", false},
		{"and it is not stopped twice", begun(asked(RestartMachine), 1), changed(func(v *View) { v.BootID, v.Unit.Active = "boot-2", "inactive" }), Wait, "", false},
		{"a repave came in between", begun(asked(RestartMachine), 1), changed(func(v *View) { v.Slot, v.BootID = journal.B, "boot-9" }), End, "", false},

		{"keys", setsKeys(), host(), Begin, "", false},
		{"keys that the policy does not allow", setsKeys(), changed(func(v *View) { v.Refused = "no" }), End, ReasonRefusedByHost, false},
		{"keys for no machine", setsKeys(), changed(func(v *View) { v.Slot = journal.None }), End, ReasonNotFound, false},
		{"keys while another machine is built", setsKeys(), changed(func(v *View) { v.Busy = "epoch 2 is in stage boot" }), Wait, "", false},
		{"keys are set", begun(setsKeys(), 0), host(), SetKeys, "", false},
		{"keys are set again after a crash", begun(setsKeys(), 1), host(), SetKeys, "", false},

		{"logs", collects(), host(), Begin, "", false},
		{"logs say why another machine cannot be built", collects(), changed(func(v *View) { v.Busy = "epoch 2 is in stage boot" }), Begin, "", false},
		{"logs that the policy does not allow", collects(), changed(func(v *View) { v.Refused = "no" }), End, ReasonRefusedByHost, false},
		{"logs that nobody stores", asked(CollectLogs), host(), End, ReasonUnsupported, false},
		{"logs are to be collected", begun(collects(), 0), host(), Collect, "", false},
		{"logs are on their way", begun(collects(), 1), changed(func(v *View) { v.Sent = true }), Wait, "", false},
		{"logs of a process that was killed are collected again", begun(collects(), 1), host(), Collect, "", false},
		{"logs that nobody answered", begun(collects(), 1), changed(func(v *View) { v.Sent = true; v.Now = now.Add(logsAgain) }), Collect, "", false},
		{"logs that are stored", begun(collects(), 1), changed(func(v *View) { v.Stored.Results = map[string]string{"key": "k"} }), End, "", false},
		{"logs that are refused", begun(collects(), 1), changed(func(v *View) { v.Stored.Refused = "too large" }), End, ReasonNotStored, false},
		{"logs that are not stored by the deadline", begun(collects(), 1), changed(func(v *View) { v.Now = now.Add(2 * time.Minute) }), End, ReasonTimeout, false},

		{"a reboot", asked(Reboot, "graceSeconds", "0"), host(), Begin, "", false},
		{"it is asked for", begun(asked(Reboot), 0), host(), RestartHost, "", true},
		{"nothing else is done until the host is down", begun(asked(Reboot), 1), changed(func(v *View) { v.Sent = true }), Wait, "", true},
		{"a process that was killed may not have asked; the boot is the same, so nothing is done twice", begun(asked(Reboot), 1), host(), RestartHost, "", true},
		{"another boot is the proof", begun(asked(Reboot), 1), changed(func(v *View) { v.HostBootID = "host-2" }), End, "", false},
		{"a reboot that somebody else asked for", begun(asked(Reboot), 0), changed(func(v *View) { v.HostBootID = "host-2" }), End, "", false},
		{"a boot that cannot be read is waited for", asked(Reboot), changed(func(v *View) { v.HostBootID = "" }), Wait, "", false},
		{"and so before a shutdown", asked(Shutdown), changed(func(v *View) { v.HostBootID = "" }), Wait, "", false},
		{"where it was not known what ran before, any boot proves nothing", func() Record { r := begun(asked(Reboot), 1); r.Marks.HostBootID = ""; return r }(),
			changed(func(v *View) { v.Sent = true }), Wait, "", true},
		{"a boot that cannot be read proves nothing", begun(asked(Reboot), 1), changed(func(v *View) { v.HostBootID, v.Sent = "", true }), Wait, "", true},
		{"the host is still there", begun(asked(Reboot), 1), changed(func(v *View) { v.Sent, v.Now = true, now.Add(hostAgain-time.Second) }), Wait, "", true},

		{"a shutdown is told before", begun(asked(Shutdown), 0), host(), Tell, "", true},
		{"for a moment", begun(asked(Shutdown), 0).Tell(now), host(), Wait, "", true},
		{"and then asked for", begun(asked(Shutdown), 0).Tell(now.Add(-tellFor)), host(), PowerOff, "", true},
		{"a host that is back was off", begun(asked(Shutdown), 1).Tell(now), changed(func(v *View) { v.HostBootID = "host-2" }), End, "", false},

		{"a reset of another machine", asked(ResetHost, "confirm", "m2"), host(), End, ReasonInvalidParameters, false},
		{"a reset goes on after a crash", begun(asked(ResetHost, "confirm", "m1"), 1), host(), Reset, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Next(c.record, c.view)
			if got.Kind != c.want || got.Outcome.Reason != c.reason || got.Alone != c.alone || got.Outcome.Failed != (c.reason != "") {
				t.Errorf("%s, %+v, alone %v; want %s, %q, alone %v", got.Kind, got.Outcome, got.Alone, c.want, c.reason, c.alone)
			}
			if got.Reason == "" || got.Kind == Wait && !got.Until.After(c.view.Now) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestM71_AnEndIsFinal: whatever is said of an operation that is over, it stays so.
func TestM71_AnEndIsFinal(t *testing.T) {
	first := begun(restartsKubelet(), 1).End(Outcome{Failed: true, Reason: ReasonTimeout, Message: "late"}, now)
	second := first.End(Outcome{Message: "done after all"}, now.Add(time.Minute))
	if second.State != Failed || second.Reason != ReasonTimeout || !second.Ended.Equal(now) || second.Parameters != nil {
		t.Errorf("%+v", second)
	}
}

// TestM81_NoParameterIsAnOption: what reaches a command line is a unit's name, whoever asks.
func TestM81_NoParameterIsAnOption(t *testing.T) {
	for _, unit := range []string{"-", "--now", "a b", "a;b", "$(reboot)", "../x", "a\nb", "", strings.Repeat("a", 300)} {
		if err := Check(RestartService, map[string]string{"service": unit}); err == nil {
			t.Errorf("%q is taken for a unit", unit)
		}
	}
	for _, unit := range []string{"kubelet", "kubelet.service", "getty@tty1.service", `a\x2db.timer`, "a:b_c.d-e.socket"} {
		if err := Check(RestartService, map[string]string{"service": unit}); err != nil {
			t.Errorf("%q: %v", unit, err)
		}
	}
	for _, unit := range []string{
		"poweroff.target", "reboot.target", "emergency.target", "var-lib.mount", "dev-sda.swap", "a.slice", "a.b", "kubelet.service.", "systemd-poweroff.service", "systemd-reboot", "rescue",
	} { // which would be a way around the policy (M86)
		if err := Check(RestartService, map[string]string{"service": unit, "scope": ScopeHost}); err == nil {
			t.Errorf("%q may be restarted", unit)
		}
	}
	if r := asked(RestartService, "service", "kubelet"); r.Service() != "kubelet.service" || r.OnHost() {
		t.Errorf("%s, on the host %v", r.Service(), r.OnHost())
	}
	if got := asked(Reboot).Grace(); got != 30*time.Second {
		t.Errorf("grace %v", got)
	}
}

// TestM86_ParametersOfCollectLogs: nothing that journalctl could take for an option, a pattern or more than one unit.
func TestM86_ParametersOfCollectLogs(t *testing.T) {
	for key, values := range map[string][]string{
		"units": {
			"kubelet", "ssh.service,kubelet", `a\x2db.mount`, "user@1000.service",
			"!", "!-f", "!--root=/", "!a b", "!a,,b", "!a,", "!*", "!a?", "![a]", "!a/b", "!a;b", "!a\nb", "!$(x)", "!" + strings.Repeat("a,", 16) + "a", "!" + strings.Repeat("a", 256),
		},
		"since": {"2h", "90s", "2026-01-31T08:00:00Z", "2026-01-31T08:00:00+02:00", "!", "!-2h", "!0s", "!yesterday", "!--until", "!@0", "!1960-01-31T08:00:00Z", "!2h; x"},
		"other": {"!x"},
	} {
		for _, value := range values {
			value, wrong := strings.CutPrefix(value, "!")
			if err := Check(CollectLogs, map[string]string{key: value}); (err != nil) != wrong {
				t.Errorf("%s=%q: %v", key, value, err)
			}
		}
	}
	r := collects()
	if got := r.Since(); !got.Equal(now.Add(-2 * time.Hour)) {
		t.Errorf("since %v", got)
	}
	r.Parameters = nil
	if got := r.Since(); !got.Equal(now.Add(-time.Hour)) || r.Units() != nil {
		t.Errorf("without parameters: since %v, units %v", got, r.Units())
	}
}

// TestM86_M100_ParametersOfApplyConfiguration: nothing but users and public keys without options.
func TestM86_M100_ParametersOfApplyConfiguration(t *testing.T) {
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{"sshKeys.admin.0", aKey + " me@example.com", true},
		{"sshKeys.admin.99", aKey + "\n" + aKey, true},
		{"sshKeys.admin.100", aKey, false},
		{"sshKeys.admin", aKey, false},
		{"sshKeys.Admin.0", aKey, false},
		{"sshKeys.../root.0", aKey, false},
		{"sshKeys.admin.0", "", false},
		{"sshKeys.admin.0", aKey + "\n", false},
		{"sshKeys.admin.0", `command="sh" ` + aKey, false},
		{"sshKeys.admin.0", aKey + "\r", false},
		{"sshKeys.admin.0", "cert-authority " + aKey, false},
		{"disruptive", "true", false},
	} {
		if err := Check(ApplyConfiguration, map[string]string{c.key: c.value}); (err == nil) != c.ok {
			t.Errorf("%s=%q: %v", c.key, c.value, err)
		}
	}
	got := setsKeys().SSHKeys()
	if len(got) != 2 || got[0].User != "a" || !slices.Equal(got[0].Keys, []string{aKey + " 2", aKey + " 2b", aKey + " 10"}) || got[1].User != "b" || len(got[1].Keys) != 1 {
		t.Errorf("keys %v", got)
	}
	for _, c := range []struct {
		came   Keys
		failed bool
		reason string
	}{{Keys{}, false, ""}, {Keys{Set: []string{"a"}}, false, ""}, {Keys{[]string{"a"}, []string{"b"}}, false, ReasonRefusedByHost}, {Keys{Refused: []string{"b"}}, true, ReasonRefusedByHost}} {
		if o := c.came.Outcome(); o.Failed != c.failed || o.Reason != c.reason {
			t.Errorf("%+v: %+v", c.came, o)
		}
	}
}
