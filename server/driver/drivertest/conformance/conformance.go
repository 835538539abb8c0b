// Package conformance says what a driver has shown of the contract of package driver.
//
// [Catalogue] numbers the behaviours that the suite of package drivertest checks, and says in which [Profile] each
// counts. A number keeps its meaning for ever and is never given again, so that the reports of years can be compared:
// a behaviour that is demanded otherwise gets a number of its own. A [Report] collects the outcome of a run, gives
// its [Verdict] on each profile, and is written as JSON and as JUnit's XML for programs.
//
// What is checked, and how, is the business of package drivertest.
package conformance

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// Profile is a part of the contract that a provider serves whole or not at all.
type Profile string

// The profiles. Every provider has to be certified for [Core] and [Durable]; the others are for those that have
// such machines.
const (
	Core      Profile = "core"
	Cloud     Profile = "cloud"
	Spot      Profile = "spot"
	BareMetal Profile = "bare-metal"
	Fault     Profile = "fault"
	Durable   Profile = "durable"
	Scale     Profile = "scale"
)

// Profiles are all profiles.
var Profiles = []Profile{Core, Cloud, Spot, BareMetal, Fault, Durable, Scale}

// Behaviour is one thing that a driver does.
type Behaviour struct {
	Number   int       `json:"number"`
	Area     string    `json:"area"`
	Profiles []Profile `json:"profiles"`
	Says     string    `json:"says"`
}

//go:embed catalogue.json
var document []byte

// Catalogue are all behaviours, in the order of their numbers.
var Catalogue = read()

func read() (all []Behaviour) {
	if err := json.Unmarshal(document, &all); err != nil {
		panic(fmt.Sprintf("catalogue of behaviours: %v", err)) // it is part of the program
	}
	return all
}

// Outcome is what a run has shown of a behaviour.
type Outcome string

// The outcomes.
const (
	Shown  Outcome = "shown"
	Failed Outcome = "failed"
	Unseen Outcome = "not shown"
)

// Verdict is what follows for a profile.
type Verdict string

// The verdicts: all of the profile was shown; something of it failed; nothing failed, and something was not shown.
const (
	Certified  Verdict = "CERTIFIED"
	NotKept    Verdict = "FAILED"
	Incomplete Verdict = "INCOMPLETE"
)

// Report is the outcome of one run of the suite. [NewReport] makes it; it is not safe for concurrent use.
type Report struct {
	subject string
	results map[int]result
}

type result struct {
	outcome Outcome
	why     string
}

// NewReport returns the report of a run that has shown nothing yet, of a driver by its name.
func NewReport(subject string) *Report { return &Report{subject, map[int]result{}} }

// Note says what came of a behaviour; why is for what was not shown. A failure is not taken back by a later success.
func (r *Report) Note(number int, outcome Outcome, why string) {
	if !slices.ContainsFunc(Catalogue, func(b Behaviour) bool { return b.Number == number }) {
		panic(fmt.Sprintf("behaviour %d is not in the catalogue", number))
	}
	if r.results[number].outcome != Failed {
		r.results[number] = result{outcome, why}
	}
}

// of is what came of a behaviour.
func (r *Report) of(number int) result {
	if res, noted := r.results[number]; noted {
		return res
	}
	return result{Unseen, "it was not tried"}
}

// Verdict returns what the run says of a profile, and how many of its behaviours were shown of how many.
func (r *Report) Verdict(p Profile) (v Verdict, shown, all int) {
	v = Certified
	for _, b := range Catalogue {
		if !slices.Contains(b.Profiles, p) {
			continue
		}
		all++
		switch r.of(b.Number).outcome {
		case Shown:
			shown++
		case Failed:
			v = NotKept
		default:
			if v == Certified {
				v = Incomplete
			}
		}
	}
	return v, shown, all
}

// String is the verdict on all profiles, on one line.
func (r *Report) String() string {
	s := r.subject + ":"
	for _, p := range Profiles {
		v, shown, all := r.Verdict(p)
		s += fmt.Sprintf(" %s %s (%d of %d)", p, v, shown, all)
	}
	return s
}
