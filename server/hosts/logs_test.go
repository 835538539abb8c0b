package hosts

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

var packed = []byte{0x1f, 0x8b, 1, 2, 3}

func (w *world) logKeys() (keys []string) {
	w.t.Helper()
	synctest.Wait()
	for info, err := range objectstore.ListAll(w.t.Context(), w.storage, layout.HostLogPrefix("s1")) {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func (l *leader) hand(id identity.ID, operation string, content []byte) {
	l.Logs(id, &nstancev1.MachineLogs{OperationId: operation, Content: content})
	synctest.Wait()
}

func collecting(id string) OrderRequest {
	return OrderRequest{ID: id, Name: "collectLogs", Deadline: time.Now().Add(5 * time.Minute)}
}

func logsOf(id string, state nstancev1.MachineOperationState) *nstancev1.MachineStatus {
	s := offering(&nstancev1.MachineOperationReport{Id: id, Name: "collectLogs", State: state, Message: "as the host says"})
	s.Executors[0].Operations = append(s.Executors[0].Operations, "collectLogs")
	return s
}

// M79: logs that were asked for are stored, and their host is told where, under this leader and a later one.
func TestM79_LogsOfAHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		l.connect(id)
		l.mustPut(id, paving(1), nil)
		l.expectSent("its machine", "assignment 1 PAVE")
		l.Status(id, logsOf("op-0", isOver))
		for _, operation := range []string{"op-1", "op-0", "", strings.Repeat("x", 1<<16)} {
			l.hand(id, operation, packed)
		}
		l.expectAsk("a reboot", id, reboot("op-2"), pending)
		l.hand(id, "op-2", packed)
		l.hand(w.newID(), "op-2", packed)
		l.expectSent("logs that nobody has asked for", "operation op-2 reboot")
		if keys := w.logKeys(); len(keys) != 0 {
			t.Errorf("stored without being asked for: %q", keys)
		}
		l.expectAsk("asked for", id, collecting("op-1"), pending)
		if o := l.agents.last.GetOperation(); !o.GetTakesLogs() {
			t.Errorf("the host is not told that logs are taken: %v", o)
		}
		l.Status(id, logsOf("op-1", begun))
		l.hand(id, "op-1", []byte("no gzip"))
		l.expectSent("what is none", "operation op-1 collectLogs", "logs of op-1 refused")
		l.hand(id, "op-1", packed)
		l.expectSent("stored", "logs of op-1 stored")
		key := l.agents.last.GetLogsStored().GetKey()
		if keys := w.logKeys(); len(keys) != 1 || keys[0] != key || !strings.HasPrefix(key, "hostlog/s1/prod."+id.String()+".") {
			t.Errorf("stored %q, told %q", keys, key)
		}
		l.disconnect(id)
		l.connect(id)
		l.expectSent("another stream", "assignment 1 PAVE", "operation op-2 reboot", "operation op-1 collectLogs", "logs of op-1 stored")
		l.end()

		l = w.lead(2, id)
		defer l.end()
		l.connect(id)
		l.Status(id, logsOf("op-1", begun))
		l.hand(id, "op-1", packed)
		l.expectSent("of another leader, whose operator has not asked", "assignment 1 PAVE")
		if _, err := l.Operation("prod", "op-1"); err != nil {
			t.Fatal(err)
		}
		l.hand(id, "op-1", packed)
		l.expectSent("its operator has asked", "logs of op-1 stored")
		if keys := w.logKeys(); len(keys) != 1 || keys[0] != l.agents.last.GetLogsStored().GetKey() {
			t.Errorf("stored %q", keys)
		}
		l.disconnect(id)
		l.connect(id)
		l.expectSent("what another leader has sent is not sent again", "assignment 1 PAVE", "logs of op-1 stored")
	})
}

// S2: a leader whose storage does not take logs tells the host nothing, which sends them again.
func TestLogsThatAreNotStored(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		l.connect(id)
		l.Status(id, logsOf("op-1", begun))
		l.expectAsk("asked for", id, collecting("op-2"), pending)
		l.stop() // the lease is gone
		l.hand(id, "op-2", packed)
		l.expectSent("without a lease", "operation op-2 collectLogs")
		if keys := w.logKeys(); len(keys) != 0 {
			t.Errorf("stored %q", keys)
		}
		l.end()
	})
}

// S22: a host that sends its logs without a pause has them stored now and then.
func TestS22_LogsThatComeTooOften(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.Status(id, logsOf("op-1", begun))
		l.expectAsk("asked for", id, collecting("op-2"), pending)
		for range 20 {
			l.hand(id, "op-2", packed)
		}
		l.expectSent("twenty at once", "operation op-2 collectLogs", "logs of op-2 stored")
		time.Sleep(time.Minute)
		l.hand(id, "op-2", packed)
		l.expectSent("a minute later", "logs of op-2 stored")
	})
}

// TestLogsOfHostsThatAreGoneAreTidied: also by a leader whose last host is gone. One that has seen none lists nothing.
func TestLogsOfHostsThatAreGoneAreTidied(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		l.connect(id)
		l.Status(id, logsOf("op-1", begun))
		if _, err := l.Operation("prod", "op-1"); err != nil {
			t.Fatal(err)
		}
		l.hand(id, "op-1", packed)
		time.Sleep(2 * time.Hour)
		l.rows.Remove(id)
		defer l.end()
		time.Sleep(7*24*time.Hour - 3*time.Hour)
		if keys := w.logKeys(); len(keys) != 1 {
			t.Errorf("before seven days: %q", keys)
		}
		time.Sleep(2 * time.Hour)
		if keys := w.logKeys(); len(keys) != 0 {
			t.Errorf("after seven days: %q", keys)
		}
	})
}

// TestLogsAreTidied: the leader deletes what is old.
func TestLogsAreTidied(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.Status(id, logsOf("op-1", begun))
		if _, err := l.Operation("prod", "op-1"); err != nil {
			t.Fatal(err)
		}
		l.hand(id, "op-1", packed)
		time.Sleep(7*24*time.Hour - time.Hour)
		if keys := w.logKeys(); len(keys) != 1 {
			t.Errorf("before seven days: %q", keys)
		}
		time.Sleep(2 * time.Hour)
		if keys := w.logKeys(); len(keys) != 0 {
			t.Errorf("after seven days: %q", keys)
		}
	})
}
