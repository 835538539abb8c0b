package paver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestM98_DriftIsReportedWithinTenMinutes: by path, whenever the file was changed; nothing is repaired,
// and the next repave ends it.
func TestM98_DriftIsReportedWithinTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.host.Survey(ctx) }()
		defer func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Survey: %v", err)
			}
		}()
		time.Sleep(time.Hour)
		if drift := w.status().GetDrift(); len(drift) > 0 {
			t.Fatalf("of nothing that was changed: %v", drift)
		}
		file := filepath.Join(w.dir, "machines/node-a/etc/kubernetes/kubelet.yaml")
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{0, time.Minute, 4*time.Minute + 29*time.Second} { // since some survey
			time.Sleep(after)
			w.write("machines/node-a/etc/kubernetes/kubelet.yaml", "mine: true\n")
			began := time.Now()
			s := w.until("told", func(s *nstancev1.MachineStatus) bool { return len(s.GetDrift()) > 0 })
			if d := s.GetDrift(); time.Since(began) > 10*time.Minute || len(d) != 1 || d[0].GetPath() != "/etc/kubernetes/kubelet.yaml" || d[0].GetKind() != nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_CHANGED {
				t.Errorf("after %v: %v", time.Since(began), d)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != "mine: true\n" {
				t.Errorf("it was repaired: %q, %v", text, err)
			}
			w.write("machines/node-a/etc/kubernetes/kubelet.yaml", string(was))
			w.until("over", func(s *nstancev1.MachineStatus) bool { return len(s.GetDrift()) == 0 })
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		s := w.until("told", func(s *nstancev1.MachineStatus) bool { return len(s.GetDrift()) > 0 })
		if d := s.GetDrift(); d[0].GetKind() != nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_MISSING {
			t.Errorf("%v", d)
		}
		w.order(2, repave, "2")
		w.join(2)
		w.until("over", func(s *nstancev1.MachineStatus) bool {
			return s.GetStage() == runs && s.GetEpoch() == 2 && len(s.GetDrift()) == 0
		})
	})
}
