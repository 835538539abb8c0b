package drivertest

import (
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/conformance"
)

// reports is the variable of the environment that names a folder for reports.
const reports = "NSTANCE_CONFORMANCE"

// Run checks the contract of [driver.Driver], and that of every optional ability that the driver has. Each test gets a
// new driver. What the run has shown is logged, and written into the folder that NSTANCE_CONFORMANCE names.
func Run(t *testing.T, h Harness) {
	wrap := h.Wrap
	if wrap == nil {
		wrap = func(t *testing.T, test func(*testing.T)) { test(t) }
	}
	report := conformance.NewReport(subject(t))
	for _, test := range tests {
		if test.needs != nil && !test.needs(h) {
			test.note(report, h, conformance.Unseen, "the harness has nothing to try it with")
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			without := ""
			defer func() { // a test that fails may end here
				switch {
				case t.Failed():
					test.note(report, h, conformance.Failed, "")
				case without != "":
					test.note(report, h, conformance.Unseen, "the driver has no "+without)
				default:
					test.note(report, h, conformance.Shown, "")
				}
			}()
			wrap(t, func(t *testing.T) {
				s := &suite{Harness: h, Driver: h.New(t), t: t}
				defer func() { without = s.missing }()
				test.run(s)
			})
		})
	}
	t.Logf("conformance of %s", report)
	if dir := os.Getenv(reports); dir != "" {
		if err := report.Write(dir); err != nil {
			t.Error(err)
		}
	}
}

// subject names the run: the folder of the driver, and what of it is tried.
func subject(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(dir) + " " + t.Name()
}

// test is one test of the suite, and what of the catalogue it shows.
type test struct {
	name  string
	needs func(Harness) bool // nil: nothing
	run   func(*suite)
	shows []int
	// where says of a behaviour whether the harness has what shows it; nil: all of shows.
	where func(h Harness, number int) bool
}

// note writes down what came of the test's behaviours.
func (t *test) note(r *conformance.Report, h Harness, outcome conformance.Outcome, why string) {
	for _, number := range t.shows {
		if outcome == conformance.Shown && t.where != nil && !t.where(h, number) {
			r.Note(number, conformance.Unseen, "the provider does not serve it")
			continue
		}
		r.Note(number, outcome, why)
	}
}

// Behaviours of capacity types, which one test shows of those that the provider serves.
const (
	makesSpot      = 505
	makesReserved  = 506
	makesBareMetal = 507
)

// servesCapacity reports whether a behaviour is about capacity that the provider serves.
func servesCapacity(h Harness, number int) bool {
	switch number {
	case makesSpot:
		return h.Capacity.Serves(driver.Spot)
	case makesReserved:
		return h.Capacity.Serves(driver.Reserved)
	case makesBareMetal:
		return h.Capacity.Serves(driver.BareMetal)
	default:
		return true
	}
}

func reopens(h Harness) bool  { return h.Reopen != nil }
func balances(h Harness) bool { return len(h.Balancers) > 0 }

var tests = []test{
	{name: "CreateShows", run: (*suite).createShows, shows: []int{101}},
	{name: "CreateTwice", run: (*suite).createTwice, shows: []int{401}},
	{name: "CreateAtOnce", run: (*suite).createAtOnce, shows: []int{402}},
	{name: "CreateAfterRestart", needs: reopens, run: (*suite).createAfterRestart, shows: []int{801}},
	{name: "CreateRefusesBadRequests", run: (*suite).createRefuses, shows: []int{201}},
	{
		name: "CapacityTypes", needs: func(h Harness) bool { return h.Capacity != nil }, run: (*suite).capacityTypes,
		shows: []int{504, makesSpot, makesReserved, makesBareMetal}, where: servesCapacity,
	},
	{name: "S6_CreateMeetsMachineOfAnotherShard", run: (*suite).createMeetsAnothers, shows: []int{204}},
	{name: "GetUnknown", run: (*suite).getUnknown, shows: []int{202}},
	{name: "GetByEitherHandle", run: (*suite).getByEitherHandle, shows: []int{102}},
	{name: "Delete", run: (*suite).deletes, shows: []int{103}},
	{name: "DeleteUnknown", run: (*suite).deleteUnknown, shows: []int{203}},
	{name: "DeleteDuringCreate", run: (*suite).deleteDuringCreate, shows: []int{403}},
	{
		name: "S4_DeleteAtEachMomentOfCreate", run: (*suite).deleteAtEachMoment, shows: []int{404},
		where: func(h Harness, _ int) bool { return h.Delay != nil },
	},
	{name: "DeleteSparesOthers", run: (*suite).deleteSparesOthers, shows: []int{405}},
	{name: "DeleteAfterRestart", needs: reopens, run: (*suite).deleteAfterRestart, shows: []int{802}},
	{name: "ListKeepsOwnersApart", run: (*suite).listKeepsOwnersApart, shows: []int{601}},
	{name: "ManyMachines", needs: func(h Harness) bool { return h.Many > 0 }, run: (*suite).manyMachines, shows: []int{901}},
	{name: "DeadMachine", needs: func(h Harness) bool { return h.Kill != nil }, run: (*suite).deadMachine, shows: []int{701}},
	{name: "CancelledContext", run: (*suite).cancelled, shows: []int{301}},
	{name: "LimitsAndLag", run: (*suite).limits, shows: []int{501}},
	{name: "SubnetHasRoom", run: (*suite).subnetHasRoom, shows: []int{602}},
	{name: "BalancerMembers", needs: balances, run: (*suite).balancerMembers, shows: []int{603}},
	{name: "BalancerStrangers", needs: balances, run: (*suite).balancerStrangers, shows: []int{207}},
	{name: "Images", needs: func(h Harness) bool { return len(h.Images) > 0 }, run: (*suite).resolvesImages, shows: []int{604}},
	{name: "InstanceTypes", run: (*suite).instanceTypes, shows: []int{503}},
	{name: "TypeCatalog", run: (*suite).typeCatalog, shows: []int{502}},
	{name: "LeaderNetwork", run: (*suite).leaderNetwork, shows: []int{605}},
	{name: "SelfID", run: (*suite).selfID, shows: []int{606}},
	{name: "Power", run: (*suite).power, shows: []int{105}},
	{name: "PowerOfStrangers", run: (*suite).powerOfStrangers, shows: []int{205}},
	{name: "PowerAfterDelete", run: (*suite).powerAfterDelete, shows: []int{206}},
	{name: "HaltAndResume", run: (*suite).haltAndResume, shows: []int{104}},
	{name: "Output", run: (*suite).output, shows: []int{607}},
	{name: "OutputOfStrangers", run: (*suite).outputOfStrangers, shows: []int{208}},
	{name: "ProviderURI", run: (*suite).providerURI, shows: []int{508}},
}
