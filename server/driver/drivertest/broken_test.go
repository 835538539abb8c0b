package drivertest_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest"
)

// broken is a driver that lists its first machine twice.
type broken struct{ full }

func (b broken) List(ctx context.Context, owner driver.Owner) ([]driver.Machine, error) {
	all, err := b.full.List(ctx, owner)
	if len(all) > 0 {
		all = append(all, all[0])
	}
	return all, err
}

// child says that this process is the one in which the suite fails.
const child = "DRIVERTEST_BROKEN"

// TestABrokenDriverIsNotCertified: the suite fails in a process of its own, and its report says which behaviour was not kept
// and that the others were.
func TestABrokenDriverIsNotCertified(t *testing.T) {
	if os.Getenv(child) != "" {
		h := harness(drivertest.Options{})
		h.Delay, h.Kill, h.Write = nil, nil, nil // which know the driver that is not broken
		h.New = func(*testing.T) driver.Driver { return broken{newFull(drivertest.Options{})} }
		drivertest.Run(t, h)
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1", "NSTANCE_CONFORMANCE="+dir)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("a broken driver passes the suite:\n%s", out)
	}
	reports, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(reports) != 1 {
		t.Fatalf("reports %v, %v", reports, err)
	}
	data, err := os.ReadFile(reports[0])
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdicts   map[string]struct{ Verdict string }
		Behaviours []struct {
			Number  int
			Outcome string
		}
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if v := got.Verdicts["core"].Verdict; v != "FAILED" {
		t.Errorf("core is %s", v)
	}
	if v := got.Verdicts["spot"].Verdict; v != "CERTIFIED" {
		t.Errorf("spot, which lists nothing, is %s", v)
	}
	outcomes := map[int]string{}
	for _, b := range got.Behaviours {
		outcomes[b.Number] = b.Outcome
	}
	for number, want := range map[int]string{601: "failed", 901: "failed", 202: "shown", 501: "shown"} {
		if outcomes[number] != want {
			t.Errorf("behaviour %d: %s, want %s", number, outcomes[number], want)
		}
	}
	if slices.Contains([]string{outcomes[101], outcomes[401]}, "not shown") {
		t.Errorf("behaviours were not tried: %v", outcomes)
	}
}
