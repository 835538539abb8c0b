package gcpfake_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"nstance.dev/providers/gcp/gcpfake"
)

// diary notes what Options.Run is told.
type diary struct {
	mu    sync.Mutex
	lines []string
	fails bool
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) run(m gcpfake.Machine) (func(), error) {
	if d.fails {
		return nil, errors.New("no")
	}
	<-time.After(time.Second) // a machine takes its time
	d.note("run " + m.Name)
	return func() { d.note("stop " + m.Name) }, nil
}

func TestWhatStandsForAMachineRunsAsLongAsIt(t *testing.T) {
	var d diary
	within(t, gcpfake.Options{Conditions: gcpfake.Conditions{Boot: time.Minute}, Run: d.run}, func(t *testing.T, a *account) {
		a.must("one")
		a.must("two")
		stop, err := a.switches()["stop"](t.Context()) // of knc1, which is not there
		if err == nil {
			t.Errorf("stop: %v", stop)
		}
		a.Kill("one")
		if err := a.delete("one"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.instances.Insert(t.Context(), a.request("three")); err != nil {
			t.Fatal(err)
		}
		if err := a.delete("three"); err != nil { // before it has booted
			t.Fatal(err)
		}
		later(time.Minute)
		a.Close()
	})
	same(t, "diary", d.lines, []string{"run one", "run two", "stop one", "stop two"})
}

func TestAMachineForWhichNothingRunsIsOff(t *testing.T) {
	d := diary{fails: true}
	within(t, gcpfake.Options{Run: d.run}, func(t *testing.T, a *account) {
		a.must("knc1")
		later(0)
		if s := a.status("knc1"); s != "TERMINATED" {
			t.Errorf("it is %s", s)
		}
	})
}

func TestPeopleCanTryOutTheEndOfASpotMachine(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("normal")
		a.must("spot", func(m *computepb.Instance) { m.Scheduling = &computepb.Scheduling{Preemptible: new(true)} })
		for _, name := range []string{"normal", "spot"} {
			op, err := a.instances.SimulateMaintenanceEvent(t.Context(), &computepb.SimulateMaintenanceEventInstanceRequest{Project: a.Project(), Zone: a.zone, Instance: name})
			if err != nil || op.Wait(t.Context()) != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		later(30 * time.Second)
		if a.status("normal") != "RUNNING" || a.status("spot") != "TERMINATED" {
			t.Errorf("they are %s and %s", a.status("normal"), a.status("spot"))
		}
	})
}
