package paver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/journal"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// journalctl is that of a host and its machine.
func (w *world) journalctl(_ context.Context, slot journal.Slot, out io.Writer, args ...string) error {
	w.journals.mu.Lock()
	defer w.journals.mu.Unlock()
	w.journals.reads++
	if w.journals.failed != nil {
		return w.journals.failed
	}
	_, err := fmt.Fprintf(out, `{"__REALTIME_TIMESTAMP":"1","SYSLOG_IDENTIFIER":"kubelet","MESSAGE":"slot %s says %s, and %s"}`+"\n", slot, token, strings.Join(args, " "))
	return err
}

func (w *world) askForLogs(id string, takes bool) {
	w.t.Helper()
	o := &nstancev1.MachineOrder{
		Id: id, Name: "collectLogs", Parameters: map[string]string{"units": "kubelet"}, Deadline: timestamppb.New(time.Now().Add(5 * time.Minute)), TakesLogs: takes,
	}
	if err := w.paver.Take(w.t.Context(), &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: o}}); err != nil {
		w.t.Error(err)
	}
}

// untilLogs lets time pass until logs are to be passed on that are others than these.
func (w *world) untilLogs(than *nstancev1.MachineLogs) *nstancev1.MachineLogs {
	w.t.Helper()
	for range 600 {
		synctest.Wait()
		if logs := w.paver.Logs(); logs != nil && logs != than {
			return logs
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("no logs: %v", w.status().GetOperations())
	return nil
}

func (w *world) answerLogs(id, key, refused string) {
	w.t.Helper()
	s := &nstancev1.MachineLogsStored{OperationId: id, Key: key, Refused: refused}
	if err := w.paver.Take(w.t.Context(), &nstancev1.MachineWork{Work: &nstancev1.MachineWork_LogsStored{LogsStored: s}}); err != nil {
		w.t.Error(err)
	}
}

// TestM79_CollectLogs: logs of host and machine are handed over without the secrets that the host was told, again after a minute and after
// a crash, and the operation is complete when the server says where they are.
func TestM79_CollectLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.setPolicy("allow: {pave: true, operations: [collectLogs]}\n")
		w.order(2, repave, "2") // whose credential is in force
		w.until("joining", in(joining))
		w.askForLogs("op-1", true)
		first := w.untilLogs(nil)
		r, err := gzip.NewReader(bytes.NewReader(first.GetContent()))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || strings.Contains(string(text), token) || strings.Count(string(text), "says <masked>, and --quiet") != 2 || !strings.Contains(string(text), "--unit=kubelet") {
			t.Errorf("%v\n%s", err, text)
		}
		w.answerLogs("op-2", "another", "") // of no operation of this host
		second := w.untilLogs(first)        // the server did not answer
		w.stop()
		w.start()
		w.untilLogs(second)
		if got := operationOf(w.status(), "op-1"); got.GetState() != began {
			t.Errorf("before the server answers: %v", got)
		}
		w.answerLogs("op-1", "hostlog/s/x.log.gz", "")
		got := w.untilState("op-1", complete)
		if got.GetResults()["key"] != "hostlog/s/x.log.gz" || got.GetResults()["entries"] != "2" || got.GetResults()["omitted"] != "0" || w.paver.Logs() != nil {
			t.Errorf("%v", got)
		}
		for _, path := range w.holders(token) {
			if strings.HasPrefix(path, state) {
				t.Errorf("the token is in %s", path)
			}
		}
	})
}

// TestM79_CollectLogsFails: of a server that refuses them, or stores none at all, of journals that cannot be read, and without leave of the host.
func TestM79_CollectLogsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.askForLogs("op-1", true)
		if got := w.untilState("op-1", opFailed); got.GetReason() != "RefusedByHost" || w.journals.reads != 0 {
			t.Errorf("%v; %d reads", got, w.journals.reads)
		}
		w.setPolicy("allow: {pave: true, operations: [collectLogs]}\n")
		w.askForLogs("op-2", false)
		if got := w.untilState("op-2", opFailed); got.GetReason() != "Unsupported" {
			t.Errorf("%v", got)
		}
		w.askForLogs("op-3", true)
		w.untilLogs(nil)
		w.answerLogs("op-3", "", "too large")
		if got := w.untilState("op-3", opFailed); got.GetReason() != "NotStored" || !strings.Contains(got.GetMessage(), "too large") {
			t.Errorf("%v", got)
		}
		w.journals.mu.Lock()
		w.journals.failed = errors.New("no journal files were found")
		w.journals.mu.Unlock()
		w.askForLogs("op-4", true)
		if got := w.untilState("op-4", opFailed); got.GetReason() != "Timeout" || !strings.Contains(got.GetMessage(), "no journal files were found") {
			t.Errorf("%v", got)
		}
	})
}
