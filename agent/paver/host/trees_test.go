package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestDiskSpaceFollowsWhatIsBuilt: what has to be free is 2 GiB and the trees that are still to be written, of an image
// of 1 GiB; where a copy shares its content with the cache, it takes nothing.
func TestDiskSpaceFollowsWhatIsBuilt(t *testing.T) {
	const need0, need1, need2 = 2048, 3072, 4096 // MiB
	for name, c := range map[string]struct {
		change   func(*journal.Journal)
		unpacked bool
		shares   bool
		need     int
	}{
		"nothing is assigned":          {change: func(j *journal.Journal) { j.Transition = nil }, need: need0},
		"it is fetched":                {need: need2},
		"it is fetched, and shares":    {shares: true, need: need1},
		"it is unpacked":               {unpacked: true, need: need1},
		"it is copied":                 {change: stage(journal.Build), unpacked: true, need: need1},
		"it is copied, and shares":     {change: stage(journal.Build), unpacked: true, shares: true, need: need0},
		"it is built":                  {change: stage(journal.Guard), unpacked: true, need: need0},
		"it is booted":                 {change: stage(journal.Boot), unpacked: true, need: need0},
		"the slot holds it already":    {change: func(j *journal.Journal) { j.Transition.Marks.Reuse = true }, need: need0},
		"it was given up":              {change: func(j *journal.Journal) { j.Transition.Marks.GaveUp = true }, need: need0},
		"the machine of before is run": {change: func(j *journal.Journal) { j.Transition.Kind = journal.KindRevert }, need: need0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.host.opts.Disk.Shares = func(string, string) bool { return c.shares }
			if !c.unpacked {
				if err := os.RemoveAll(filepath.Join(f.dir, "image")); err != nil {
					t.Fatal(err)
				}
			}
			j := f.work(transition.FetchRoot, journal.Fetch, journal.None, journal.A).Journal
			if c.change != nil {
				c.change(&j)
			}
			for free, want := range map[int]nstancev1.PreflightResult{
				c.need - 1: nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED, c.need: nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED,
			} {
				f.facts.DiskFree = uint64(free) << 20
				f.host.Surroundings(t.Context(), j)
				f.host.look(t.Context())
				for _, check := range f.host.Surroundings(t.Context(), j).Preflight {
					if check.GetId() != preflight.DiskSpace {
						continue
					}
					said := want == nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED || strings.Contains(check.GetMessage(), fmt.Sprintf("%d MiB needed", c.need))
					if check.GetResult() != want || !said {
						t.Errorf("with %d MiB free: %s, %s", free, check.GetResult(), check.GetMessage())
					}
				}
			}
		})
	}
}

// stage lets the transition be in a stage.
func stage(s journal.Stage) func(*journal.Journal) {
	return func(j *journal.Journal) { j.Transition.Stage = s }
}
