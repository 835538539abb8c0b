package document

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"nstance.dev/server/config/jsonc"
)

// Bounds of [Demand].
const (
	maxDemandMachines   = 1_000_000
	maxReservations     = 64
	maxDisruption       = 32
	longestDemandPeriod = 30 * 24 * time.Hour
)

// Complete gives the block with the defaults filled in; nil stands for an empty one. What has no
// default stays absent: Max is [NoMax] then, ReleaseHold nil and AfterDrain empty where they depend
// on how a machine is paid for.
func (d *Demand) Complete() *Demand {
	c := Demand{}
	if d != nil {
		c = *d
	}
	setPtr(&c.Min, 0)
	setPtr(&c.Max, NoMax)
	setPtr(&c.MinIdle, 0)
	setPtr(&c.Weight, 1)
	if c.CapacityTypes == nil {
		c.CapacityTypes = []string{CapacityOnDemand}
	}
	setDefault(&c.Configure, ConfigureAgent)
	setDefault(&c.OnDrainTimeout, DrainTimeoutAbort)
	if c.Configure == ConfigureUserData {
		c.AfterDrain = AfterDrainDelete
	}
	setPtr(&c.ScaleDownDelay, Duration(time.Minute))
	setPtr(&c.MinLifetime, Duration(5*time.Minute))
	setPtr(&c.JoinDeadline, Duration(10*time.Minute))
	if c.Limits == nil {
		c.Limits = &DemandLimits{}
	}
	consolidation := Consolidation{}
	if c.Consolidation != nil {
		consolidation = *c.Consolidation
	}
	setPtr(&consolidation.MinSaving, Fraction(150_000))
	c.Consolidation = &consolidation
	return &c
}

func setPtr[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// AfterDrainOf is what becomes of a machine of a capacity type that has left its cluster.
func (d *Demand) AfterDrainOf(capacityType string) string {
	switch {
	case d.AfterDrain != "":
		return d.AfterDrain
	case capacityType == CapacitySpot:
		return AfterDrainDelete
	default:
		return AfterDrainIdle
	}
}

// Problems are those of the block by itself.
func (d *Demand) Problems() []Problem {
	if d == nil {
		return nil
	}
	var all []Problem
	add := func(message, remedy string, steps ...any) { all = append(all, Problem{steps, message, remedy}) }
	for _, n := range []struct {
		name  string
		value *int
		least int
	}{{"min", d.Min, 0}, {"max", d.Max, 0}, {"min_idle", d.MinIdle, 0}, {"weight", d.Weight, 1}} {
		if n.value != nil && (*n.value < n.least || *n.value > maxDemandMachines) {
			add(strconv.Itoa(*n.value)+" is out of range", "from "+strconv.Itoa(n.least)+" to "+strconv.Itoa(maxDemandMachines), n.name)
		}
	}
	c := d.Complete()
	if *c.Max != NoMax && *c.Min > *c.Max {
		add("min, "+strconv.Itoa(*c.Min)+", is above max, "+strconv.Itoa(*c.Max), "lower min, or raise max")
	}
	if *c.Max != NoMax && *c.MinIdle > *c.Max {
		add("min_idle, "+strconv.Itoa(*c.MinIdle)+", is above max, "+strconv.Itoa(*c.Max), "lower min_idle, or raise max")
	}
	if *c.Max != NoMax && *c.Min <= *c.Max && *c.MinIdle <= *c.Max && *c.Min+*c.MinIdle > *c.Max {
		add("min and min_idle together, "+strconv.Itoa(*c.Min+*c.MinIdle)+", are above max, "+strconv.Itoa(*c.Max), "lower one of them, or raise max")
	}
	for _, t := range []struct {
		name  string
		value *Duration
	}{
		{"release_hold", d.ReleaseHold}, {"scale_down_delay", d.ScaleDownDelay}, {"min_lifetime", d.MinLifetime}, {"join_deadline", d.JoinDeadline},
	} {
		if t.value != nil && t.value.Std() > longestDemandPeriod {
			add(t.value.String()+" is too long", "at most 30d", t.name)
		}
	}
	if d.JoinDeadline != nil && d.JoinDeadline.Std() < 30*time.Second {
		add(d.JoinDeadline.String()+" is too short: no Node is ready so soon", "at least 30s", "join_deadline")
	}
	all = append(all, oneOf(d.Configure, []any{"configure"}, ConfigureAgent, ConfigureUserData)...)
	all = append(all, oneOf(d.AfterDrain, []any{"after_drain"}, AfterDrainIdle, AfterDrainDelete)...)
	all = append(all, oneOf(d.OnDrainTimeout, []any{"on_drain_timeout"}, DrainTimeoutAbort, DrainTimeoutForce)...)
	if d.Configure == ConfigureUserData {
		if *c.MinIdle > 0 {
			add("with configure user_data no machine runs without a cluster", "take it out, or write configure agent", "min_idle")
		}
		if d.AfterDrain == AfterDrainIdle {
			add("with configure user_data no machine is used again", "take it out, or write delete", "after_drain")
		}
	}
	all = append(all, d.capacityProblems()...)
	all = append(all, d.reservationProblems()...)
	all = append(all, d.limitProblems()...)
	return append(all, d.disruptionProblems()...)
}

func oneOf(value string, at []any, known ...string) []Problem {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	remedy := "must be one of " + strings.Join(known, ", ")
	if near := jsonc.Nearest(value, known); near != "" {
		remedy = "did you mean " + jsonc.Quoted(near) + "? " + remedy
	}
	return []Problem{{at, jsonc.Quoted(value) + " is not known", remedy}}
}

func (d *Demand) capacityProblems() []Problem {
	var all []Problem
	if d.CapacityTypes != nil && len(d.CapacityTypes) == 0 && len(d.Reservations) == 0 {
		all = append(all, Problem{at("capacity_types"), "an empty list would let the group buy nothing", "name at least one, or take the list out"})
	}
	for i, t := range d.CapacityTypes {
		if t == CapacityReserved {
			all = append(all, Problem{at("capacity_types", i), `"reserved" is not chosen here`, "list what is reserved in reservations"})
			continue
		}
		all = append(all, oneOf(t, at("capacity_types", i), CapacityOnDemand, CapacitySpot, CapacityBareMetal)...)
		if t == "" || slices.Contains(d.CapacityTypes[:i], t) {
			all = append(all, Problem{at("capacity_types", i), jsonc.Quoted(t) + " is empty or stands here twice", "take it out"})
		}
	}
	return all
}

func (d *Demand) reservationProblems() []Problem {
	var all []Problem
	add := func(message, remedy string, steps ...any) {
		all = append(all, Problem{append(at("reservations"), steps...), message, remedy})
	}
	if n := len(d.Reservations); n > maxReservations {
		add(strconv.Itoa(n)+" of them", "at most "+strconv.Itoa(maxReservations))
	}
	seen := map[string]bool{}
	for i, r := range d.Reservations {
		if r.ID == "" || !CleanText(r.ID) || strings.Contains(r.ID, "/") {
			add(jsonc.Quoted(r.ID)+" is not the id of a reservation", "write the provider's", i, "id")
		}
		if seen[r.ID] {
			add(jsonc.Quoted(r.ID)+" stands here twice", "take one of them out", i, "id")
		}
		seen[r.ID] = true
		if r.InstanceType == "" || !CleanText(r.InstanceType) {
			add(jsonc.Quoted(r.InstanceType)+" is not an instance type", "write one of the provider's", i, "instance_type")
		}
		if !CleanText(r.Zone) {
			add("not the name of a zone", "write one of the provider's", i, "zone")
		}
		if r.Count < 1 || r.Count > maxDemandMachines {
			add(strconv.Itoa(r.Count)+" is out of range", "from 1 to "+strconv.Itoa(maxDemandMachines), i, "count")
		}
	}
	return all
}

func (d *Demand) limitProblems() []Problem {
	if d.Limits == nil {
		return nil
	}
	var all []Problem
	for _, n := range []struct {
		name  string
		value *int64
	}{{"vcpu", d.Limits.VCPU}, {"memory_gib", d.Limits.MemoryGiB}} {
		if n.value != nil && (*n.value < 0 || *n.value > 1e12) {
			all = append(all, Problem{at("limits", n.name), strconv.FormatInt(*n.value, 10) + " is out of range", "from 0 to 1000000000000"})
		}
	}
	for name, n := range d.Limits.GPU {
		if err := checkName(name); err != nil {
			all = append(all, Problem{at("limits", "gpu", name), err.Error(), `the name of a resource, such as "nvidia.com/gpu"`})
		}
		if n < 0 || n > 1e12 {
			all = append(all, Problem{at("limits", "gpu", name), strconv.FormatInt(n, 10) + " is out of range", "from 0 to 1000000000000"})
		}
	}
	return all
}

// Window is the time in which a budget is in force, as a window that comes round again.
func (b DisruptionBudget) Window() MaintenanceWindow {
	return MaintenanceWindow{Cron: b.Schedule, Duration: b.Duration}
}

func (d *Demand) disruptionProblems() []Problem {
	var all []Problem
	add := func(message, remedy string, steps ...any) {
		all = append(all, Problem{append(at("disruption"), steps...), message, remedy})
	}
	if n := len(d.Disruption); n > maxDisruption {
		add(strconv.Itoa(n)+" of them", "at most "+strconv.Itoa(maxDisruption))
	}
	for i, b := range d.Disruption {
		for j, reason := range b.Reasons {
			all = append(all, oneOf(reason, at("disruption", i, "reasons", j), DisruptionReasons...)...)
			if reason == "" {
				add("an empty reason", "must be one of "+strings.Join(DisruptionReasons, ", "), i, "reasons", j)
			}
		}
		switch {
		case b.Schedule == "" && b.Duration != 0:
			add("without a schedule it is always in force", "take it out, or add a schedule", i, "duration")
		case b.Schedule == "":
		case b.Duration <= 0:
			add("required with a schedule, above 0", `how long the budget is in force, such as "8h"`, i, "duration")
		default:
			schedule, _, err := b.Window().Schedule()
			if err != nil {
				add(err.Error(), `five fields: minute, hour, day of month, month, day of week, such as "0 9 * * mon-fri"`, i, "schedule")
			} else if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
				add(jsonc.Quoted(b.Schedule)+" never comes", "choose a day that exists", i, "schedule")
			}
		}
	}
	return all
}

// Problems are those of the requirements for machines of an architecture; empty: not known.
func (r *InstanceRequirements) Problems(arch string) []Problem {
	if r == nil {
		return nil
	}
	var all []Problem
	for i, a := range r.Arch {
		all = append(all, oneOf(a, at("arch", i), "amd64", "arm64")...)
	}
	if arch != "" && len(r.Arch) > 0 && !slices.Contains(r.Arch, arch) {
		all = append(all, Problem{at("arch"), "the template is " + arch + ", which is not among them", "take arch out, or use another template"})
	}
	ranges := []struct {
		at []any
		r  *Range
	}{{at("vcpu"), r.VCPU}, {at("memory_gib"), r.MemoryGiB}}
	if g := r.GPU; g != nil {
		ranges = append(ranges, struct {
			at []any
			r  *Range
		}{at("gpu", "count"), g.Count}, struct {
			at []any
			r  *Range
		}{at("gpu", "memory_gib"), g.MemoryGiB})
		if c := g.Count; c != nil && c.Max != nil && *c.Max == 0 {
			all = append(all, Problem{at("gpu", "count"), "max, 0, leaves no type", "take gpu out: types that have accelerators are left out then"})
		}
	}
	for _, one := range ranges {
		switch {
		case one.r == nil:
		case one.r.Min != nil && *one.r.Min < 0:
			all = append(all, Problem{append(slices.Clone(one.at), "min"), strconv.FormatInt(*one.r.Min, 10) + " is out of range", "from 0 on"})
		case one.r.Max != nil && *one.r.Max < 0:
			all = append(all, Problem{append(slices.Clone(one.at), "max"), strconv.FormatInt(*one.r.Max, 10) + " is out of range", "from 0 on"})
		case one.r.Min != nil && one.r.Max != nil && *one.r.Min > *one.r.Max:
			all = append(all, Problem{one.at, "min is above max", "swap them"})
		}
	}
	for i, family := range r.FamiliesIn {
		if slices.Contains(r.FamiliesOut, family) {
			all = append(all, Problem{at("families_in", i), jsonc.Quoted(family) + " stands in families_out too", "take it out of one of them"})
		}
	}
	for _, list := range []struct {
		name  string
		words []string
	}{{"families_in", r.FamiliesIn}, {"families_out", r.FamiliesOut}} {
		for i, word := range list.words {
			if word == "" || !CleanText(word) {
				all = append(all, Problem{at(list.name, i), jsonc.Quoted(word) + " is not a family of instance types", "write it as the provider does"})
			}
		}
	}
	return all
}
