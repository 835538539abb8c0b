package proxmox_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/server/driver"
)

// The log of a machine is what was done with it, the latest last, with what the tasks have noted; a console
// there is none.
func TestOutputIsTheLogOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t)
		d, req := open(t, cloud), requestFor(t, onLVM())
		m, err := d.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		ref := driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}
		if err := d.Power(t.Context(), ref, driver.PowerOffHard); err != nil {
			t.Fatal(err)
		}
		out, err := d.Output(t.Context(), ref, driver.Log)
		if err != nil {
			t.Fatal(err)
		}
		text := string(out.Data)
		started, stopped := strings.Index(text, " qmstart by "), strings.Index(text, " qmstop by ")
		if started < 0 || stopped < started || !strings.HasSuffix(text, ": OK\n  TASK OK\n") || out.Cut {
			t.Errorf("the log is\n%s", text)
		}
		_, err = d.Output(t.Context(), ref, driver.Console)
		if driver.ClassOf(err) != driver.Unsupported || !strings.Contains(err.Error(), `no "console"`) {
			t.Errorf("the console: %v", err)
		}
	})
}

// S12: a number is given out again where the machine that had it is gone. What was done with that one, maybe another tenant's,
// is in no log of the new one.
func TestS12_OutputIsNotThatOfAnEarlierMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(t)
		d, req := open(t, cloud), requestFor(t, onLVM())
		m := made(t, d, req)
		if err := d.Delete(t.Context(), driver.Ref{InstanceID: m.InstanceID, ProviderID: m.ProviderID}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d, req = open(t, cloud), requestFor(t, onLVM())
		next := made(t, d, req)
		if next.ProviderID != m.ProviderID {
			t.Fatalf("the machines are %s and %s, and were to have one number", m.ProviderID, next.ProviderID)
		}
		out, err := d.Output(t.Context(), driver.Ref{InstanceID: next.InstanceID, ProviderID: next.ProviderID}, driver.Log)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(out.Data); strings.Count(text, " qmstart by ") != 1 || strings.Contains(text, " qmdestroy by ") {
			t.Errorf("the log is\n%s", text)
		}
	})
}
