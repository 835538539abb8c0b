package penaltyfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/operator/demand/penaltyfile"
	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A change is in force within an interval, and what has changed is told; a bad file is not taken, and reported once.
func TestTheFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`priorityClasses: {payments: {interruptionPenalty: "50"}, batch: {reclamationPenalty: "1"}}`)
	synctest.Test(t, func(t *testing.T) {
		var log testworld.Log
		f, err := penaltyfile.Open(path, log.Logger())
		if err != nil {
			t.Fatal(err)
		}
		var told [][]string
		f.OnChange(func(classes []string) { told = append(told, classes) })
		go func() { _ = f.Run(t.Context()) }()
		penalty := func(class string) string {
			time.Sleep(penaltyfile.Interval)
			synctest.Wait()
			return f.Classes()[class].Interruption.String()
		}
		if got := penalty("payments"); got != "50" || len(told) > 0 {
			t.Errorf("at first %s, told %v", got, told)
		}
		write(`priorityClasses: {payments: {interruptionPenalty: 50000m}, batch: {interruptionPenalty: "0.01"}, new: {}}`)
		if got := penalty("batch"); got != "10m" || len(told) != 1 || !slices.Equal(told[0], []string{"batch"}) {
			t.Errorf("after a change %s, told %v", got, told)
		}
		log.Take()
		for _, bad := range []string{`priorityClasses: {batch: {interruptionPenalty: "-1"}}`, ""} {
			if bad == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				write(bad)
			}
			if got := penalty("batch"); got != "10m" {
				t.Errorf("with a bad file %s", got)
			}
			penalty("batch")
		}
		if said := log.Take(); strings.Count(said, "refused, keeping the previous ones") != 1 || !strings.Contains(said, "not read, keeping the previous ones") {
			t.Errorf("log:\n%s", said)
		}
		write(`{}`)
		if penalty("batch"); len(told) != 2 || !slices.Equal(told[1], []string{"batch", "payments"}) {
			t.Errorf("told %v", told)
		}
	})
}

func TestABadFileIsRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte(`priorityClasses: {a: {penalty: "1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{bad: "bad.yaml", filepath.Join(dir, "none.yaml"): "none.yaml"} {
		if _, err := penaltyfile.Open(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	f, err := penaltyfile.Open("", nil)
	if err != nil || len(f.Classes()) != 0 {
		t.Errorf("without a file: %v", err)
	}
}
