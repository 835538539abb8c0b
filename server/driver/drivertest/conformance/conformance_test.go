package conformance_test

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/driver/drivertest/conformance"
)

// given are all numbers that were ever given. New ones are added; none goes, and none comes to mean something else.
var given = []int{
	101, 102, 103, 104, 105, 201, 202, 203, 204, 205, 206, 207, 208, 301, 401, 402, 403, 404, 405, 501, 502, 503, 504, 505, 506, 507, 508,
	601, 602, 603, 604, 605, 606, 607, 701, 801, 802, 901,
}

func TestCatalogue(t *testing.T) {
	var numbers []int
	for _, b := range conformance.Catalogue {
		numbers = append(numbers, b.Number)
		if b.Area == "" || !strings.HasSuffix(b.Says, ".") || len(b.Profiles) == 0 {
			t.Errorf("behaviour %d has no area, sentence or profile: %+v", b.Number, b)
		}
		for _, p := range b.Profiles {
			if !slices.Contains(conformance.Profiles, p) {
				t.Errorf("behaviour %d is in the profile %q, which does not exist", b.Number, p)
			}
		}
	}
	if !slices.Equal(numbers, given) {
		t.Errorf("the catalogue has the numbers %v, and these were given: %v", numbers, given)
	}
	for _, p := range conformance.Profiles {
		if _, _, all := conformance.NewReport("x").Verdict(p); all == 0 {
			t.Errorf("nothing is in the profile %s", p)
		}
	}
}

// all notes one outcome for every behaviour of a profile.
func all(r *conformance.Report, p conformance.Profile, outcome conformance.Outcome) {
	for _, b := range conformance.Catalogue {
		if slices.Contains(b.Profiles, p) {
			r.Note(b.Number, outcome, "")
		}
	}
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(*conformance.Report)
		want conformance.Verdict
	}{
		"nothing was tried":  {func(*conformance.Report) {}, conformance.Incomplete},
		"all was shown":      {func(r *conformance.Report) { all(r, conformance.Core, conformance.Shown) }, conformance.Certified},
		"of another profile": {func(r *conformance.Report) { all(r, conformance.Durable, conformance.Shown) }, conformance.Incomplete},
		"one was not shown": {func(r *conformance.Report) {
			all(r, conformance.Core, conformance.Shown)
			r.Note(101, conformance.Unseen, "no time")
		}, conformance.Incomplete},
		"one failed": {func(r *conformance.Report) {
			all(r, conformance.Core, conformance.Shown)
			r.Note(101, conformance.Failed, "")
		}, conformance.NotKept},
		"it failed, then not": {func(r *conformance.Report) {
			r.Note(101, conformance.Failed, "")
			all(r, conformance.Core, conformance.Shown)
		}, conformance.NotKept},
		"failed, others never": {func(r *conformance.Report) { r.Note(101, conformance.Failed, "") }, conformance.NotKept},
	} {
		t.Run(name, func(t *testing.T) {
			r := conformance.NewReport("x")
			c.run(r)
			if got, _, _ := r.Verdict(conformance.Core); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	r := conformance.NewReport("some cloud")
	all(r, conformance.Core, conformance.Shown)
	r.Note(204, conformance.Failed, "")
	r.Note(505, conformance.Unseen, "spot capacity is not served")
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Subject  string
		Verdicts map[string]struct{ Verdict string }
	}
	data, err := os.ReadFile(filepath.Join(dir, "some-cloud.json"))
	if err != nil || json.Unmarshal(data, &got) != nil || got.Subject != "some cloud" || got.Verdicts["core"].Verdict != "FAILED" || got.Verdicts["spot"].Verdict != "INCOMPLETE" {
		t.Errorf("%v: %s", err, data)
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	}
	data, err = os.ReadFile(filepath.Join(dir, "some-cloud.xml"))
	if err != nil || xml.Unmarshal(data, &suite) != nil || suite.Failures != 1 || suite.Tests != len(suite.Cases) || !strings.Contains(string(data), "spot capacity is not served") {
		t.Errorf("%v: %s", err, data)
	}
	if err := r.Write(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a report is written into a folder that does not exist")
	}
}
