package machines

import (
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/server/driver"
)

// TestPower has user data that notes when it begins and when it is asked to end.
func TestPower(t *testing.T) {
	const noting = `trap 'echo asked >> notes; exit' TERM; echo begun >> notes; "$NSTANCE_AGENT" 100000 & while :; do wait; done`
	d := empty(t)
	req := request(t)
	req.UserData = []byte(noting)
	_, err := d.Create(t.Context(), req)
	must(t, err)
	notes := func() string {
		text, err := os.ReadFile(filepath.Join(d.store.Dir(req.InstanceID), "notes"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
	awaitNotes := func(want string) { t.Helper(); await(t, func() bool { return notes() == want }) }
	power := func(action driver.PowerAction) {
		t.Helper()
		must(t, d.Power(t.Context(), driver.Ref{InstanceID: req.InstanceID}, action))
	}
	awaitNotes("begun\n")
	power(driver.PowerOff)
	awaitStatus(t, d, req.InstanceID, driver.Stopped)
	awaitNotes("begun\nasked\n")
	power(driver.PowerOn)
	awaitNotes("begun\nasked\nbegun\n")
	power(driver.PowerCycle)
	awaitNotes("begun\nasked\nbegun\nbegun\n")
	power(driver.PowerReboot)
	awaitNotes("begun\nasked\nbegun\nbegun\nasked\nbegun\n")

	kill(t, d, awaitStatus(t, d, req.InstanceID, driver.Running))
	awaitStatus(t, d, req.InstanceID, driver.Failed)
	power(driver.PowerOn)
	awaitStatus(t, d, req.InstanceID, driver.Running)
	awaitNotes("begun\nasked\nbegun\nbegun\nasked\nbegun\nbegun\n")
}
