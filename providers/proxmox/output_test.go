package proxmox_test

import (
	"strings"
	"testing"
	"testing/synctest"

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
		if driver.ClassOf(err) != driver.Unsupport || !strings.Contains(err.Error(), `no "console"`) {
			t.Errorf("the console: %v", err)
		}
	})
}
